"""`capsnet train`."""

from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from tyro.conf import Positional

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe, choose_kernels
from capsnet.cli.training_options import AS_THEY_ARE, Training
from capsnet.config import Config
from capsnet.files import read_json
from capsnet.train.settings import default_folder


def train(
    dataset: Positional[Maybe[str]] = None,
    /,
    *,
    options: Training = AS_THEY_ARE,
    seed: Maybe[int] = None,
    config: Maybe[Path] = None,
    data_dir: Maybe[Path] = None,
    out: Maybe[Path] = None,
    resume: Flag = False,
    save_every: float = 20.0,
    json: Flag = False,
) -> None:
    """Train a network, select its best checkpoint, test it once.

    Args:
        dataset: A data set's name (see `capsnet data list`), a folder of pictures, a CSV that lists them, or an .npz file.
        seed: Fixes everything random; 0 when left out.
        config: A run's config.json, to repeat the run; command-line options override it.
        data_dir: Where data sets are looked for first.
        out: The run's folder; runs/DATASET-MODEL-RECIPE-sSEED when left out.
        resume: Continue the run in that folder.
        save_every: Seconds between states that a killed run can continue from.
        json: End with one JSON document on stdout.
    """
    choose_kernels(options.kernels)
    base = Config.from_dict(read_json(config)) if config else None
    settings = options.make_config(dataset, base, seed=seed)
    folder = out or default_folder(settings)

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


def show_result(result: dict[str, Any], folder: Path) -> None:
    """Print the result's numbers as a table."""
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
