"""`capsnet eval`."""

from pathlib import Path

from rich.progress import Progress
from tyro.conf import Positional

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe, Pairs, parse_pairs
from capsnet.errors import CapsNetError


def evaluate(
    weights: Positional[str],
    dataset: Positional[Maybe[str]] = None,
    /,
    *,
    patches: int = 1,
    pairs: Maybe[int] = None,
    data_options: Pairs = (),
    device: str = "auto",
    threads: Maybe[int] = None,
    data_dir: Maybe[Path] = None,
    json: Flag = False,
) -> None:
    """Test weights on a data set's test images.

    Args:
        weights: A run folder, a weights folder, or a bundled name such as efficient_capsnet.mnist.
        dataset: A data set's name; the one the weights were trained on when left out.
        patches: Crops of each image to average over, where the data set has crops (13 are Hinton's).
        pairs: Test pairs for each digit, on MultiMNIST (1000 are the paper's).
        data_options: The data set's own, such as views=azimuth_familiar; those of training count too when no data set is named.
        device: auto, cpu, cuda or mps.
        threads: Of the CPU; all when left out.
        data_dir: Where data sets are looked for first.
        json: Print one JSON document.
    """
    import torch

    from capsnet.data import load_dataset
    from capsnet.devices import choose_device, set_threads
    from capsnet.evaluate.metrics import evaluate as run
    from capsnet.saving import load
    from capsnet.train.prepare import check_fits

    set_threads(threads)
    where = choose_device(device)
    model = load(weights)
    name = dataset or model.card.provenance.get("dataset")
    if name is None:
        raise CapsNetError(f"The weights '{weights}' don't say what they were trained on; name a data set.")
    options = model.card.provenance.get("dataset_options", {}) if dataset is None else {}
    options |= parse_pairs(data_options, "--data-options") | ({"pairs": pairs} if pairs is not None else {})
    if patches < 1:
        raise CapsNetError(f"--patches is at least 1; got {patches}.")
    data = load_dataset(name, data_dir=data_dir, **options)
    check_fits(model, data, weights)
    model.to(where, memory_format=torch.channels_last)  # type: ignore[call-overload]
    with Progress(console=console.errors, transient=True, disable=not console.errors.is_terminal) as bar:
        task = bar.add_task("testing", total=data.test_images)
        scores = run(
            model, data, data.test, patches=patches, on_batch=lambda images: bar.advance(task, images)
        )
    result = {"weights": weights, "model": model.architecture.name, "dataset": name, **scores.to_dict()}
    if json:
        console.print_json(result)
        return
    errors = ", ".join(
        f"{k.replace('_percent', '').replace('_', ' ')} {v:.2f} %" for k, v in scores.named_errors().items()
    )
    console.out.print(
        f"{model.architecture.name} on {name}: {scores.wrong_images} of {scores.images:,} test images wrong, {errors}",
        highlight=False,
    )
