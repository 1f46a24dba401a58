"""`capsnet report`: a page on one's own runs: what was trained on what, how it went, and where it errs.

Every number is computed from the run's own files and from its weights on the test images that they were trained beside.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import capsnet
from capsnet.analysis import calibration, errors, perturb, reconstruct
from capsnet.analysis.plotting import save_figure
from capsnet.analysis.subject import Subject
from capsnet.errors import CapsNetError
from capsnet.evaluate.classes import class_scores, confusion_matrix
from capsnet.evaluate.predictions import FILE, Predictions, predict_test, read_predictions
from capsnet.evaluate.statistics import mcnemar_p
from capsnet.files import read_json
from capsnet.opening import open_weights
from capsnet.report.confusion import draw_confusion
from capsnet.report.curves import draw_curves
from capsnet.report.page import Part, Picture, Report, write_report
from capsnet.report.table import Table, number, plain
from capsnet.wording import counted

MOST_DRAWN = 10  # classes in a figure with one picture of each


@dataclass(frozen=True)
class Run:
    """Opened weights with what they say of the test images and, for a run folder, its record."""

    label: str
    subject: Subject
    predictions: Predictions
    record: dict[str, Any] | None

    @property
    def single(self) -> bool:
        """Whether every image holds one class."""
        return self.predictions.classes.shape[1] == 1


def build_own_report(
    out: Path,
    names: Sequence[str],
    *,
    dataset: str | None = None,
    data_dir: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Write index.html, report.md and figures/ into `out`.

    Args:
        names: run folders, weights folders or bundled names.
        dataset: the data to test on; what each was trained on by default.
        say: hears what is being done.
    """
    runs = []
    for name, label in zip(names, distinct_labels(names), strict=True):
        say(f"testing {label}")
        runs.append(open_run(name, label, dataset, data_dir))
    parts: list[Part] = [runs_table(runs)]
    records = [run.record for run in runs if run.record and run.record.get("curve")]
    if records:
        alt = f"Training loss and validation error by epoch for {counted(len(records), 'run')}."
        file = save_figure(draw_curves(records), out / "figures", "curves")[0]
        parts.append(Picture("curves", "Training curves", file, alt, "From each run's own record."))
    if len(runs) > 1:
        parts.append(comparison_table(runs))
    for place, run in enumerate(runs, 1):
        parts += run_parts(run, place, out / "figures" / f"run{place}", say)
    title = (
        f"{runs[0].label}: {runs[0].subject.dataset.name}" if len(runs) == 1 else f"{len(runs)} runs compared"
    )
    report = Report(title, [f"Made by capsnet {capsnet.__version__}."], parts)
    write_report(report, out)
    return report


def open_run(name: str, label: str, dataset: str | None, data_dir: Path | None) -> Run:
    """Open weights, and read or compute their scores on the test images."""
    subject = Subject(open_weights(name, dataset, data_dir=data_dir))
    folder = Path(name)
    record = read_json(folder / "result.json") if (folder / "result.json").is_file() else None
    kept = dataset is None and (folder / FILE).is_file()
    predictions = read_predictions(folder) if kept else predict_test(subject.model, subject.dataset)
    return Run(label, subject, predictions, record)


def distinct_labels(names: Sequence[str]) -> list[str]:
    """Shorten paths to as many last parts as keep them apart."""
    parts = [Path(name).parts for name in names]
    for length in range(1, max(map(len, parts)) + 1):
        labels = ["/".join(p[-length:]) for p in parts]
        if len(set(labels)) == len(labels):
            return labels
    raise CapsNetError("The same run is named twice.")


def runs_table(runs: Sequence[Run]) -> Table:
    """What was trained on what, and the errors."""
    rows = []
    for run in runs:
        record = run.record or {}
        seconds = record.get("seconds")
        config = record.get("config", {})
        rows.append(
            [
                plain(run.label),
                plain(run.subject.name),
                plain(run.subject.dataset.name),
                plain(config.get("recipe", {}).get("name", "")),
                plain(record.get("epochs", "")),
                number(f"{record['train_images']:,}" if "train_images" in record else ""),
                number(percent(record.get("train_error_percent", record.get("train_pair_error_percent")))),
                number(percent(record.get("validation_error_percent"))),
                number(percent(run.predictions.error_percent())),
                number(f"{len(run.predictions.classes):,}"),
                number(f"{seconds / 60:.1f}" if seconds else ""),
            ]
        )
    headings = (
        "run",
        "model",
        "data",
        "recipe",
        "epochs",
        "training images",
        "training error",
        "validation error",
        "test error",
        "test images",
        "minutes",
    )
    note = "For images of two classes, an image is wrong unless both are found." if not runs[0].single else ""
    return Table("runs", "Runs", headings, rows, note)


def comparison_table(runs: Sequence[Run]) -> Table:
    """Every two runs that were tested on the same images, by McNemar's exact test."""
    rows = []
    for one, two in combinations(runs, 2):
        if not one.predictions.same_images(two.predictions):
            rows.append([plain(one.label), plain(two.label), *[plain("other images")] * 4])
            continue
        a, b = one.predictions.wrong(), two.predictions.wrong()
        only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
        numbers = (int((a & b).sum()), only_a, only_b, f"{mcnemar_p(only_a, only_b):.4f}")
        rows.append([plain(one.label), plain(two.label), *map(number, numbers)])
    headings = ("first", "second", "both wrong", "only the first wrong", "only the second wrong", "p")
    note = "p by McNemar's exact test: how likely so uneven a division is if both err equally often."
    return Table("comparison", "Image by image", headings, rows, note)


def run_parts(run: Run, place: int, out: Path, say: Callable[[str], None]) -> list[Part]:
    """The sections about one run."""
    subject, predictions, of = run.subject, run.predictions, f"{run.label}: "
    parts: list[Part] = [classes_table(run, f"classes{place}")]

    def add(name: str, title: str, file: Path, alt: str, caption: str) -> None:
        parts.append(Picture(f"{name}{place}", of + title, file, alt, caption))

    if run.single:
        figure = draw_confusion(confusion_matrix(predictions), subject.dataset.class_names)
        alt = "Confusion matrix: the class of an image down, the predicted class across."
        add("confusion", "confusion matrix", save_figure(figure, out, "confusion")[0], alt, alt)
        say(f"looking for the mistakes of {run.label}")
        found = errors.analyse(subject, subject.choose(None), out)
        if found["errors"]:
            caption = (
                f"{found['errors']} of {found['images']:,} test images are wrong. In {found['label_is_second']} of them the "
                f"label scores second; in {found['close_calls']} the lead is below {found['close_call_lead']}."
            )
            alt = "The surest mistakes, each with all scores as bars."
            add("mistakes", "the surest mistakes", out / "errors.png", alt, caption)
        told = calibration.analyse(subject, subject.choose(None), out)
        caption = (
            f"Expected calibration error {told['before']['ece_percent']:.2f} % before and {told['after']['ece_percent']:.2f} % "
            f"after temperature scaling (T = {told['temperature']:.2f}), fitted on {told['fitted_on']}."
        )
        alt = "Two reliability diagrams: accuracy against confidence, before and after temperature scaling."
        add("calibration", "calibration", out / "calibration.png", alt, caption)
    if subject.model.decoder is not None:
        say(f"reconstructing by {run.label}")
        indices = subject.one_of_each()[:MOST_DRAWN]
        reconstruct.reconstruct([subject], indices, out)
        alt = "Test images, and below each what the decoder makes of its capsule."
        add("reconstruct", "reconstructions", out / "reconstruct.png", alt, "One test image per class.")
        if run.single and predictions_are_capsules(subject):
            perturb.draw(subject, perturb.perturb(subject, 0), out)
            alt = "Reconstructions with one number of the capsule moved, one row per number."
            caption = "One number of the class capsule is moved at a time, in each row another."
            add("perturb", "perturbed capsules", out / "perturb.png", alt, caption)
    return parts


def predictions_are_capsules(subject: Subject) -> bool:
    """Whether there are class capsules whose numbers can be moved."""
    try:
        subject.require_capsules()
    except CapsNetError:
        return False
    return True


def classes_table(run: Run, key: str) -> Table:
    """Precision, recall and F1 of each class."""
    rows = []
    for name, score in zip(run.subject.dataset.class_names, class_scores(run.predictions), strict=True):
        shares = (share(score.precision), share(score.recall), share(score.f1))
        rows.append([plain(name), *map(number, (*shares, f"{score.images:,}", f"{score.predicted:,}"))])
    headings = ("class", "precision", "recall", "F1", "images", "predictions")
    return Table(key, f"{run.label}: classes", headings, rows)


def share(value: float | None) -> str:
    """A share in percent, or a dash."""
    return "-" if value is None else percent(100 * value)


def percent(value: float | None) -> str:
    """A number in percent, or nothing."""
    return "" if value is None else f"{value:.2f} %"
