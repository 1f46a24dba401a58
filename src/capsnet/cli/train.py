"""`capsnet train`."""

import dataclasses
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.table import Table
from tyro.conf import Positional

from capsnet.cli import console
from capsnet.cli.options import Flag, Kernels, Maybe, Pairs, choose_kernels, parse_pairs
from capsnet.config import Config
from capsnet.data.registry import usual_hold_out
from capsnet.errors import CapsNetError
from capsnet.files import read_json
from capsnet.train.recipes import get_recipe

PAPER_MODELS = {
    "multimnist": "efficient_capsnet_multimnist",
    "smallnorb": "efficient_capsnet_smallnorb",
    "toyviews": "efficient_capsnet_smallnorb",
    "eth80": "efficient_capsnet_smallnorb",
    "coil100": "efficient_capsnet_smallnorb",
}


def train(
    dataset: Positional[Maybe[str]] = None,
    /,
    *,
    model: Maybe[str] = None,
    recipe: Maybe[str] = None,
    seed: Maybe[int] = None,
    epochs: Maybe[int] = None,
    images: Maybe[int] = None,
    learning_rate: Maybe[float] = None,
    limit: Maybe[int] = None,
    validation: Maybe[int] = None,
    hold_out: Maybe[str] = None,
    fold: Maybe[str] = None,
    no_test: Flag = False,
    no_reconstruction: Flag = False,
    augment: Maybe[str] = None,
    image_size: Maybe[int] = None,
    group_by: Maybe[str] = None,
    model_options: Pairs = (),
    data_options: Pairs = (),
    init: Maybe[str] = None,
    config: Maybe[Path] = None,
    device: str = "auto",
    threads: Maybe[int] = None,
    kernels: Maybe[Kernels] = None,
    precision: Maybe[Literal["float32", "bf16"]] = None,
    compile: Flag = False,
    data_dir: Maybe[Path] = None,
    out: Maybe[Path] = None,
    resume: Flag = False,
    save_every: float = 20.0,
    json: Flag = False,
) -> None:
    """Train a network, select it on held-out training images, test it once.

    Args:
        dataset: A data set's name (see `capsnet data list`), or your own pictures: a folder, a CSV or TSV, an .npz.
        model: A model's name (see `capsnet models`); the paper's for the data set when left out.
        recipe: quick (5 epochs), paper and authors (the paper's 100 epochs and its program's 150), fast (25 epochs of varied
            handwriting), photos (colour photographs) or budget (300,000 images, for comparisons); quick when left out.
        seed: Fixes everything random; 0 when left out.
        epochs: In place of the recipe's, which gives small data sets more.
        images: Images seen in all, in place of whole epochs.
        learning_rate: In place of the recipe's.
        limit: Train on this many images only.
        validation: Training images held out to select on; min(5,000, 10 %) when left out, 0 for none.
        hold_out: images takes them one by one, stretches in runs of the stored order, writers (of MNIST), objects or another
            grouping of the data set in whole groups, so that none is on both sides; the data set's usual way when left out,
            which is objects where viewpoints are known, else images.
        fold: Such as 2/5: hold out the second of five fixed parts, the same for every seed, whatever --validation is.
        no_test: Leave the test set unread, while settings are being chosen.
        no_reconstruction: Train without the decoder.
        augment: How training images are varied, by name, or none; the data set's own when left out.
        image_size: The side, in pixels, that your own pictures are brought to.
        group_by: What your own pictures must stay together by when they are divided: a column of the CSV, or a regular
            expression on file names.
        model_options: The model's own, such as routing=dynamic iterations=3.
        data_options: The data set's own, such as views=azimuth.
        init: Weights to start from.
        config: A run's config.json, to run it again; the options given beside it count.
        device: auto, cpu, cuda or mps.
        threads: Of the CPU; all when left out.
        kernels: off computes everything by PyTorch's own operations; auto by default.
        precision: bf16 runs convolutions and the decoder in bfloat16 while training, nearly twice as fast on processors with
            instructions for it (lscpu lists avx512_bf16 or amx_bf16); all else, and every evaluation, stays in float32.
        compile: With torch.compile.
        data_dir: Where data sets are looked for first.
        out: The run's folder; runs/DATASET-MODEL-RECIPE-sSEED when left out.
        resume: Continue the run in that folder.
        save_every: Seconds between states that a killed run can continue from.
        json: End with one JSON document on stdout.
    """
    choose_kernels(kernels)
    asked: dict[str, Any] = {
        "seed": seed,
        "limit": limit,
        "validation": validation,
        "hold_out": hold_out,
        "fold": fold,
        "init": init,
        "precision": precision,
        "compile": compile or None,
        "test": False if no_test else None,
        "threads": threads,
        "device": device if device != "auto" else None,
    }
    wanted = {key: value for key, value in asked.items() if value is not None}
    settings = _from_file(config) if config else settings_from_names(dataset, model, recipe)
    if config and dataset:
        wanted["dataset"] = dataset
    if config and model:
        wanted["model"] = model
    if config and recipe:
        settings = dataclasses.replace(settings, recipe=get_recipe(recipe, settings.dataset, settings.model))
    changed = {"epochs": epochs, "images": images, "augmentation": augment, "learning_rate": learning_rate}
    changes: dict[str, Any] = {key: value for key, value in changed.items() if value is not None}
    if epochs is not None:
        changes = {"least_steps": 0, "images": None, **changes}
    settings = dataclasses.replace(settings, recipe=dataclasses.replace(settings.recipe, **changes), **wanted)
    ours = {**settings.model_options, **parse_pairs(model_options, "--model-options")}
    if no_reconstruction:
        ours["decoder"] = False
    theirs = {**settings.dataset_options, **parse_pairs(data_options, "--data-options")}
    if image_size is not None:
        theirs["image_size"] = image_size
    if group_by is not None:
        theirs["group_by"] = group_by
    settings = dataclasses.replace(settings, model_options=ours, dataset_options=theirs)
    fold_name = [f"fold{settings.fold.replace('/', 'of')}"] if settings.fold else []
    folder = out or Path("runs") / "-".join(
        (Path(settings.dataset).stem, settings.model, settings.recipe.name, *fold_name, f"s{settings.seed}")
    )

    from capsnet.train.distributed import leads
    from capsnet.train.interrupt import Interrupted
    from capsnet.train.loop import train as run
    from capsnet.train.progress import show_progress

    callbacks = show_progress(console.errors) if leads() else []
    try:
        result = run(
            settings, folder, resume=resume, data_dir=data_dir, callbacks=callbacks, save_every=save_every
        )
    except Interrupted as stop:
        raise KeyboardInterrupt(str(stop)) from None
    if not leads():
        return
    if json:
        console.print_json(result)
    else:
        show_result(result, folder)


def _from_file(path: Path) -> Config:
    return Config.from_dict(read_json(path))


def settings_from_names(dataset: str | None, model: str | None, recipe: str | None) -> Config:
    """The defaults: the paper's model for the data set, the recipe `quick`."""
    if dataset is None:
        raise CapsNetError("Say what to train on: `capsnet train mnist`, or a run again with --config.")
    model = model or PAPER_MODELS.get(dataset, "efficient_capsnet")
    return Config(
        dataset=dataset,
        model=model,
        recipe=get_recipe(recipe or "quick", dataset, model),
        hold_out=usual_hold_out(dataset),
    )


def show_result(result: dict[str, Any], folder: Path) -> None:
    """The result's numbers as a table."""
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    for key, value in result.items():
        if key.endswith("error_percent") and value is not None:
            name = key.removesuffix("_percent").replace("_", " ")
            table.add_row(name, f"{value:.2f} %")
    table.add_row(
        "weights", f"{folder / result['selected']['weights']} (epoch {result['selected']['epoch']})"
    )
    table.add_row("training", f"{result['seconds'] / 60:.1f} min, {result['images_per_second']:.0f} images/s")
    console.out.print(table)
