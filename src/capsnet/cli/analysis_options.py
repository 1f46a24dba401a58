"""What the commands of `capsnet analyze` share: their options, opening what is analysed, and writing what was found."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe

if TYPE_CHECKING:
    from capsnet.analysis.subject import Subject

Weights = Annotated[
    Positional[str],
    arg(help="A run folder, a weights folder, or a bundled name such as efficient_capsnet.mnist."),
]
OnDataSet = Annotated[
    Positional[Maybe[str]],
    arg(help="A data set's name or path; by default the one the weights were trained on."),
]
Out = Annotated[Path, arg(help="The folder to write into.")]
Device = Annotated[str, arg(help="auto, cpu, cuda or mps.")]
Threads = Annotated[Maybe[int], arg(help="The number of CPU threads; all by default.")]
DataDir = Annotated[Maybe[Path], arg(help="The folder to look for data sets in first.")]
Images = Annotated[Maybe[int], arg(help="The number of test images, from a seeded shuffle; all by default.")]
Seed = Annotated[int, arg(help="Picks the images.")]
Json = Annotated[Flag, arg(help="Print one JSON document.")]


def open_subject(
    weights: str, dataset: str | None, data_dir: Path | None, device: str, threads: int | None
) -> "Subject":
    from capsnet.analysis.plotting import new_figure
    from capsnet.analysis.subject import Subject
    from capsnet.devices import choose_device, set_threads
    from capsnet.opening import open_weights

    new_figure(1, 1)  # a missing matplotlib is reported before anything is computed
    set_threads(threads)
    return Subject(open_weights(weights, dataset, data_dir=data_dir), choose_device(device))


def finish(result: dict[str, Any], subject: "Subject", out: Path, name: str, json: bool) -> None:
    """Write NAME.json and print what was made."""
    from capsnet.files import write_json

    whole = {"weights": subject.weights, "model": subject.name, "dataset": subject.dataset.name, **result}
    write_json(out / f"{name}.json", whole)
    if json:
        console.print_json(whole)
        return
    for file in [*result["files"], str(out / f"{name}.json"), *map(str, sorted(out.glob(f"{name}.csv")))]:
        console.out.print(file, markup=False, highlight=False, soft_wrap=True)


def write_record(file: Path, subject: "Subject", result: dict[str, Any]) -> None:
    """Write an analysis's numbers with machine and commit, for the tables of the documentation."""
    import torch

    from capsnet.files import write_json
    from capsnet.train.provenance import provenance

    told = {"weights": Path(subject.weights).name, "model": subject.name, "dataset": subject.dataset.name}
    numbers = {key: value for key, value in result.items() if key != "files"}
    write_json(file, {**told, **numbers, **provenance(subject.device, torch.get_num_threads())})
