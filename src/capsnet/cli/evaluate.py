"""`capsnet eval`."""

from pathlib import Path
from typing import Any

from rich.progress import Progress
from tyro.conf import Positional

from capsnet.cli import console
from capsnet.cli.options import Flag, Kernels, Maybe, Pairs, choose_kernels, parse_pairs
from capsnet.errors import CapsNetError


def evaluate(
    weights: Positional[str],
    dataset: Positional[Maybe[str]] = None,
    /,
    *,
    patches: int = 1,
    views: Maybe[str] = None,
    pairs: Maybe[int] = None,
    data_options: Pairs = (),
    device: str = "auto",
    threads: Maybe[int] = None,
    kernels: Maybe[Kernels] = None,
    data_dir: Maybe[Path] = None,
    json: Flag = False,
) -> None:
    """Test weights on a data set's test images.

    Args:
        weights: A run folder, a weights folder, or a bundled name such as efficient_capsnet.mnist.
        dataset: A data set's name or path; by default the one the weights were trained on.
        patches: Average the scores over this many crops of each image, where the data set is cropped (Hinton uses 13).
        views: Average the scores over views of each image: itself and, of "shift,turn,slant,zoom" those named, itself moved or
            turned a little, as far as a number says (shift=1,turn=5). A result of its own: name it with its views.
        pairs: The number of test pairs per digit, on MultiMNIST (the paper uses 1000).
        data_options: The data set's own options, such as views=azimuth_familiar; they override those of training.
        device: auto, cpu, cuda or mps.
        threads: The number of CPU threads; all by default.
        kernels: off computes everything by PyTorch's own operations; auto by default.
        data_dir: The folder to look for data sets in first.
        json: Print one JSON document.
    """
    import torch

    from capsnet.devices import choose_device, set_threads
    from capsnet.evaluate.metrics import evaluate as run
    from capsnet.models.mixture import mix
    from capsnet.opening import open_weights

    if patches < 1:
        raise CapsNetError(f"--patches is at least 1; got {patches}.")
    set_threads(threads)
    choose_kernels(kernels)
    where = choose_device(device)
    options = parse_pairs(data_options, "--data-options") | ({"pairs": pairs} if pairs is not None else {})
    opened = open_weights(weights, dataset, data_dir=data_dir, **options)
    data = opened.dataset
    model = opened.model if views is None else mix([opened.model], views=views)
    name = data.name
    model.to(where, memory_format=torch.channels_last)  # type: ignore[call-overload]
    with Progress(console=console.errors, transient=True, disable=not console.errors.is_terminal) as bar:
        task = bar.add_task("testing", total=data.test_images)
        scores = run(
            model, data, data.test, patches=patches, on_batch=lambda images: bar.advance(task, images)
        )
    result: dict[str, Any] = {"weights": weights, "model": opened.model.architecture.name, "dataset": name}
    result |= {"data_options": opened.options, **({"views": views} if views else {}), **scores.to_dict()}
    if json:
        console.print_json(result)
        return
    errors = ", ".join(
        f"{k.replace('_percent', '').replace('_', ' ')} {v:.2f} %" for k, v in scores.named_errors().items()
    )
    seen = f", views {views}" if views else ""
    console.out.print(
        f"{opened.model.architecture.name} on {name}{seen}: {scores.wrong_images} of {scores.images:,} test images wrong, "
        f"{errors}",
        highlight=False,
    )
