"""Do networks notice what is none of their classes? Every measure and the calibrated rule, for several systems.

Each measure's threshold is what the stated share of validation images exceeds, so the false alarms on test images may differ
from it. AUROC: how often a foreign picture looks more foreign than a test image does; it needs no threshold.

Letters: N images.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from capsnet.analysis.calibration import held_out
from capsnet.analysis.foreign import DRAWN, SPOILT, draw, of_others, read_all, spoil
from capsnet.analysis.plotting import CYCLE, new_figure, save_figure, show_mosaic, write_csv
from capsnet.analysis.subject import Subject, labels
from capsnet.data.base import Split
from capsnet.data.listing import find_pictures
from capsnet.detection.detector import FALSE_ALARM, RULES, Detector, Rule, fit_detector, fit_rule
from capsnet.detection.measures import MEASURES, Evidence
from capsnet.errors import CapsNetError
from capsnet.evaluate.evidence import BATCH, ENOUGH, evidence_of, gather, look, prepared

FAMILIAR = "test images"
SHOWN = 12
TIMED = 200

Judge = Callable[[Evidence], np.ndarray]


def auroc(familiar: np.ndarray, foreign: np.ndarray) -> float:
    """Return the share of pairs in which the foreign picture has the larger value; ties count half."""
    order = np.sort(familiar)
    below = np.searchsorted(order, foreign, side="left")
    ties = np.searchsorted(order, foreign, side="right") - below
    return float((below + ties / 2).mean() / len(order))


def judges(evidence: Evidence, false_alarm: float) -> dict[str, tuple[Judge, float]]:
    """Return what can be measured of a system, by name, each with its threshold on validation images.

    Reconstruction and votes are judged by class; length, agreement and energy as they are. "combined" takes features in
    place of primary capsules where there are none, which the rule on a card does not.
    """
    found: dict[str, tuple[Judge, float]] = {}
    for name in ("length", "energy", "agreement"):
        if MEASURES[name].fits(evidence):
            measure = MEASURES[name].compute
            found[name] = measure, float(np.quantile(measure(evidence), 1 - false_alarm))
    rules: dict[str, Rule] = {}
    for name in ("reconstruction", "votes"):
        if MEASURES[name].fits(evidence):
            rules[name] = fit_rule((name,), evidence, false_alarm)
    rules["combined"] = fit_detector(evidence, "", false_alarm=false_alarm, rules=RULES).rules[0]
    return found | {name: (rule.strangeness, rule.threshold) for name, rule in rules.items()}


def calibration_evidence(subject: Subject, *, votes: bool) -> tuple[Evidence, str]:
    """Return the evidence of validation images, and say which they are; `votes` is that of `gather`."""
    split, which = held_out(subject)
    if len(split.labels) > ENOUGH:
        split = split.select(torch.arange(ENOUGH))
    return gather(subject.model, prepared(subject.dataset, split), votes=votes), which


def fit(subject: Subject, false_alarm: float = FALSE_ALARM) -> Detector:
    """Fit the detector that the weights' card keeps."""
    evidence, which = calibration_evidence(subject, votes=False)
    return fit_detector(evidence, which, false_alarm=false_alarm)


def foreign_sets(
    subject: Subject,
    split: Split,
    *,
    count: int,
    seed: int,
    others: Sequence[str] = (),
    data_dir: Path | None = None,
) -> dict[str, Tensor]:
    """Return pictures of none of the classes, in the stored form, by name."""
    dataset = subject.dataset
    sets: dict[str, Tensor] = {}
    for name in others:
        sets |= of_others(dataset, name, count, seed, data_dir)
    sets |= {name: draw(dataset, name, count, seed) for name in DRAWN}
    sets |= {name: spoil(split, name, seed)[:count] for name in SPOILT}
    return sets


def measure(
    subject: Subject,
    test: Evidence,
    sets: Mapping[str, Tensor],
    familiar: Mapping[str, Tensor],
    false_alarm: float,
) -> dict[str, Any]:
    """Return what every measure of one system makes of the sets."""
    validation, which = calibration_evidence(subject, votes=True)
    found = judges(validation, false_alarm)
    seen = {
        name: gather(subject.model, _batches(subject, images), votes=True) for name, images in sets.items()
    }
    known = {
        name: gather(subject.model, _batches(subject, images), votes=True)
        for name, images in familiar.items()
    }
    result: dict[str, Any] = {}
    for name, (judge, threshold) in found.items():
        usual = judge(test)
        result[name] = {
            "threshold": threshold,
            "false_alarms_percent": _percent(usual > threshold),
            "accepted_percent": {of: _percent(judge(own) <= threshold) for of, own in known.items()},
            "auroc": {of: auroc(usual, judge(own)) for of, own in seen.items()},
            "detected_percent": {of: _percent(judge(own) > threshold) for of, own in seen.items()},
        }
    detector = fit(subject, false_alarm)
    return {"calibrated_on": which, "measures": result, **time_detection(subject, detector)}


def analyse(
    subjects: Sequence[Subject],
    indices: Tensor,
    out: Path,
    *,
    seed: int = 0,
    false_alarm: float = FALSE_ALARM,
    others: Sequence[str] = (),
    familiar: Sequence[Path] = (),
    data_dir: Path | None = None,
) -> dict[str, Any]:
    """Measure all systems on the same pictures; draw the figure, write the numbers."""
    first = subjects[0]
    for subject in subjects:
        if subject.dataset.image_shape != first.dataset.image_shape:
            raise CapsNetError(f"'{subject.weights}' takes images of another size than '{first.weights}'.")
    split = first.dataset.test.select(indices)
    sets = foreign_sets(first, split, count=len(indices), seed=seed, others=others, data_dir=data_dir)
    known = {folder.name: read_all(first.dataset, find_pictures(folder)) for folder in familiar}
    systems = {}
    for name, subject in zip(labels(subjects), subjects, strict=True):
        test = gather(subject.model, prepared(subject.dataset, split), votes=True)
        systems[name] = measure(subject, test, sets, known, false_alarm)
    rows = [
        {
            "system": system,
            "measure": measure_name,
            "pictures": of,
            "auroc": told["auroc"][of],
            "detected_percent": told["detected_percent"][of],
        }
        for system, whole in systems.items()
        for measure_name, told in whole["measures"].items()
        for of in sets
    ]
    write_csv(out / "unknown.csv", rows)
    files = draw_figure(first, systems, {FAMILIAR: split.images, **known, **sets}, out)
    return {
        "false_alarm_percent": 100 * false_alarm,
        "seed": seed,
        "images": {FAMILIAR: len(split.labels), **{k: len(v) for k, v in (known | sets).items()}},
        "systems": systems,
        "files": [str(file) for file in files],
    }


def draw_figure(
    subject: Subject, systems: Mapping[str, Any], sets: Mapping[str, Tensor], out: Path
) -> list[Path]:
    """Draw some of the pictures, and the share that each system's combined rule notices."""
    figure = new_figure(9, 0.42 * len(sets) + 1.2)
    left, right = figure.subplots(1, 2, width_ratios=[1.3, 1])
    pictures = [
        list(subject.shown(subject.dataset.preprocessing.apply(images[:SHOWN]))) for images in sets.values()
    ]
    pictures = [row + [np.ones_like(row[0])] * (SHOWN - len(row)) for row in pictures]
    show_mosaic(left, pictures, list(sets))
    left.set_aspect("auto")  # so that the rows stand beside their bars
    height = 0.8 / len(systems)
    for n, (name, told) in enumerate(systems.items()):
        combined = told["measures"]["combined"]
        accepted = combined["accepted_percent"]
        shares = [
            combined["false_alarms_percent"] if of == FAMILIAR
            else 100 - accepted[of] if of in accepted
            else combined["detected_percent"][of]
            for of in sets
        ]  # fmt: skip
        places = np.arange(len(sets)) + (n - (len(systems) - 1) / 2) * height
        right.barh(places, shares, height, color=CYCLE[n % len(CYCLE)], label=name)
    right.set_ylim(len(sets) - 0.5, -0.5)
    right.set_yticks([])
    right.set_xlim(0, 100)
    right.set_xlabel("percent taken for none of the classes")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=7)
    return save_figure(figure, out, "unknown")


def _batches(subject: Subject, images: Tensor) -> Iterator[Tensor]:
    for part in images.split(BATCH):
        yield subject.dataset.preprocessing.apply(part)


def _percent(which: np.ndarray) -> float:
    return round(100 * float(which.mean()), 4)


@torch.inference_mode()
def time_detection(subject: Subject, detector: Detector) -> dict[str, float]:
    """Measure predictions of one picture, without detection and with it in turn; medians."""
    image = subject.batch(torch.tensor([0])).images.to(subject.device)
    taken: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(TIMED):
        for detecting in (False, True):
            start = time.perf_counter()
            if detecting:
                detector.reasons(evidence_of(look(subject.model, image), image))
            else:
                subject.model(image).scores.tolist()
            taken[detecting].append(time.perf_counter() - start)
    plain, whole = (1000 * float(np.median(taken[key])) for key in (False, True))
    return {"milliseconds": plain, "milliseconds_with_detection": whole, "times": whole / plain}
