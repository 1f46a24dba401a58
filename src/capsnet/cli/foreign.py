"""`capsnet analyze unknown` and `capsnet analyze attacks`: what networks make of pictures that are none of their classes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from capsnet.cli import console
from capsnet.cli.analysis_options import (
    DataDir,
    Device,
    Images,
    Json,
    OnDataSet,
    Out,
    Seed,
    Threads,
    Weights,
    finish,
    open_subject,
    write_record,
)
from capsnet.cli.options import Flag, Maybe

if TYPE_CHECKING:
    from capsnet.analysis.subject import Subject

Beside = Annotated[tuple[str, ...], arg(help="More weights, to compare on the same pictures.")]
Record = Annotated[
    Maybe[Path], arg(help="Also write the numbers, with machine and commit, to this JSON file.")
]


def unknown(
    weights: Weights,
    dataset: OnDataSet = None,
    /,
    *,
    out: Out,
    beside: Beside = (),
    others: tuple[str, ...] = (),
    familiar: tuple[Path, ...] = (),
    false_alarm: float = 0.05,
    keep: Flag = False,
    record: Record = None,
    images: Images = None,
    seed: Seed = 0,
    device: Device = "auto",
    threads: Threads = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Measure how well pictures of none of the classes are noticed: letters, shapes, noise, spoilt test images, other data.

    Args:
        others: Data sets or folders of pictures that are none of the classes, such as fashion_mnist.
        familiar: Folders with other people's pictures of the classes, which should be accepted.
        false_alarm: The share of validation images that may be taken for foreign.
        keep: Write the calibrated rule to the weights' card, where predict, serve and export find it.
    """
    from capsnet.analysis import unknown as run

    subjects = _open_all(weights, beside, dataset, data_dir, device, threads)
    subject = subjects[0]
    result = run.analyse(
        subjects,
        subject.choose(images, seed),
        out,
        seed=seed,
        false_alarm=false_alarm,
        others=others,
        familiar=familiar,
        data_dir=data_dir,
    )
    if keep:
        from dataclasses import replace

        from capsnet.saving import write_card

        detection = run.fit(subject, false_alarm).to_dict()
        write_card(weights, replace(subject.model.card, detection=detection))
        console.errors.print(f"{weights}: the rule is on the card.", markup=False, highlight=False)
    if record:
        write_record(record, subject, result)
    finish(result, subject, out, "unknown", json)


def attacks(
    weights: Weights,
    dataset: OnDataSet = None,
    /,
    *,
    out: Out,
    beside: Beside = (),
    false_alarm: float = 0.05,
    steps: int = 40,
    strengths: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.3),
    record: Record = None,
    images: Annotated[
        Maybe[int], arg(help="The number of test images, from a seeded shuffle; 200 by default.")
    ] = 200,
    seed: Seed = 0,
    device: Device = "auto",
    threads: Threads = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Attack networks by gradients and spoil pictures at random; count errors, and the share that detection notices.

    Args:
        false_alarm: The share of validation images that may be taken for foreign.
        steps: The number of steps of the attacks that take several.
        strengths: How far a pixel may be changed, as shares of its range.
    """
    from capsnet.analysis.attacks import report as run

    subjects = _open_all(weights, beside, dataset, data_dir, device, threads)
    subject = subjects[0]
    chosen = subject.choose(images, seed)
    result = run.analyse(
        subjects, chosen, out, strengths=strengths, steps=steps, seed=seed, false_alarm=false_alarm
    )
    if record:
        write_record(record, subject, result)
    finish(result, subject, out, "attacks", json)


def _open_all(
    weights: str,
    beside: tuple[str, ...],
    dataset: str | None,
    data_dir: Path | None,
    device: str,
    threads: int | None,
) -> "list[Subject]":
    """Open the weights and those to compare, all on the data set of the first."""
    first = open_subject(weights, dataset, data_dir, device, threads)
    return [first, *(open_subject(w, first.opened.dataset_name, data_dir, device, threads) for w in beside)]
