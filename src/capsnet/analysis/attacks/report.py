"""Error, and the share that detection notices, against the strength of attacks and corruptions, for several systems.

An attacked picture that is noticed does no harm: `undetected_error_percent` is the share of pictures that are taken for a wrong
class and not noticed. The detector knows nothing of attacks: it is calibrated on validation images, as everywhere.

Letters: B batch.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capsnet.analysis.attacks.checks import check
from capsnet.analysis.attacks.corruptions import CORRUPTIONS, STRENGTHS
from capsnet.analysis.attacks.gradient import STEPS, Attack, Bounds
from capsnet.analysis.plotting import CYCLE, new_figure, save_figure, write_csv
from capsnet.analysis.subject import Subject, labels
from capsnet.analysis.unknown import fit
from capsnet.detection.detector import FALSE_ALARM, Detector
from capsnet.errors import CapsNetError
from capsnet.evaluate.evidence import evidence_of, join, look

BATCH = 50
CHECKED = 50
CHECKED_AT = 0.1
Changed = tuple[str, float, Tensor]


def bounds_of(subject: Subject) -> Bounds:
    """Return the range of pixels as the network takes them."""
    prepared = subject.dataset.preprocessing
    if prepared.per_image:
        raise CapsNetError(
            "Where each image is standardised by itself, pixels have no range to attack within."
        )
    channels = subject.dataset.image_shape[0]
    mean = torch.tensor(prepared.mean or [0.0] * channels).view(-1, 1, 1)
    std = torch.tensor(prepared.std or [1.0] * channels).view(-1, 1, 1)
    ends = ((value / prepared.divisor - mean) / std for value in (0.0, 255.0))
    low, high = (end.to(subject.device).expand(channels, 1, 1) for end in ends)
    return Bounds(low, high)


def changed(
    subject: Subject,
    detector: Detector,
    images: Tensor,
    classes: Tensor,
    strengths: Sequence[float],
    steps: int,
    seed: int,
) -> Iterator[Changed]:
    """Give every attack and corruption of one batch: its name, its strength and the pictures."""
    generator = torch.Generator().manual_seed(seed)
    bounds = bounds_of(subject)
    attack = Attack(subject.model, bounds, steps)
    count = subject.dataset.num_classes
    targets = (classes + torch.randint(1, count, (len(classes),), generator=generator).to(classes)) % count
    for strength in strengths:
        yield "fgsm", strength, attack.fgsm(images, classes, strength)
        yield "pgd", strength, attack.pgd(images, classes, strength, generator)
        yield "targeted", strength, attack.targeted(images, targets, strength, generator)
        if subject.model.decoder is not None:
            yield "aware", strength, attack.aware(images, targets, strength, generator)
        yield "evasive", strength, attack.evasive(images, targets, strength, generator, detector.rules[0])
    for name, corrupt in CORRUPTIONS.items():
        for level in STRENGTHS:
            yield name, float(level), corrupt(images, level, bounds, generator)


def measure(
    subject: Subject,
    indices: Tensor,
    detector: Detector,
    *,
    strengths: Sequence[float],
    steps: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Return a row per attack and strength; that of the untouched images comes first."""
    subject.model.requires_grad_(False)
    seen: dict[tuple[str, float], list[Any]] = {}
    true = []
    for n, part in enumerate(indices.split(BATCH)):
        batch = subject.batch(part)
        images, classes = batch.images.to(subject.device), batch.classes[:, 0].to(subject.device)
        true.append(classes.cpu())
        every = changed(subject, detector, images, classes, strengths, steps, seed + n)
        for name, strength, pictures in (("none", 0.0, images), *every):
            with torch.inference_mode():
                found = evidence_of(look(subject.model, pictures), pictures)
            seen.setdefault((name, strength), []).append(found)
    labels_of_all = torch.cat(true).numpy()
    rows = []
    for (name, strength), parts in seen.items():
        evidence = join(parts)
        wrong = evidence.classes != labels_of_all
        rule = detector.rule_for(evidence)
        noticed = rule.strangeness(evidence) > rule.threshold
        rows.append(
            {
                "attack": name,
                "strength": strength,
                "error_percent": 100 * float(wrong.mean()),
                "detected_percent": 100 * float(noticed.mean()),
                "undetected_error_percent": 100 * float((wrong & ~noticed).mean()),
            }
        )
    return rows


def analyse(
    subjects: Sequence[Subject],
    indices: Tensor,
    out: Path,
    *,
    strengths: Sequence[float],
    steps: int = STEPS,
    seed: int = 0,
    false_alarm: float = FALSE_ALARM,
) -> dict[str, Any]:
    """Measure all systems, check their gradients, draw the figure and write the numbers."""
    if steps < 2 or not strengths or not all(0 < s <= 1 for s in strengths):
        raise CapsNetError("Attacks take at least 2 steps, and strengths above 0 and at most 1.")
    names = labels(subjects)
    systems: dict[str, Any] = {}
    for name, subject in zip(names, subjects, strict=True):
        detector = fit(subject, false_alarm)
        rows = measure(subject, indices, detector, strengths=strengths, steps=steps, seed=seed)
        some = subject.batch(indices[:CHECKED])
        others = {n: s.model for n, s in zip(names, subjects, strict=True) if s is not subject}
        systems[name] = {
            "calibrated_on": detector.calibrated_on,
            "rule": list(detector.rules[0].yardsticks),
            "rows": rows,
            "gradients": check(
                subject.model,
                some.images.to(subject.device),
                some.classes[:, 0].to(subject.device),
                bounds_of(subject),
                CHECKED_AT,
                steps=steps,
                others=others,
            ),
        }
    table = [{"system": name, **row} for name, told in systems.items() for row in told["rows"]]
    write_csv(out / "attacks.csv", table)
    files = draw(systems, out)
    return {
        "images": len(indices),
        "steps": steps,
        "seed": seed,
        "false_alarm_percent": 100 * false_alarm,
        "systems": systems,
        "files": [str(file) for file in files],
    }


def draw(systems: dict[str, Any], out: Path) -> list[Path]:
    """Draw one panel per attack: all errors dashed, those that are not noticed as a line."""
    kinds = list(dict.fromkeys(row["attack"] for told in systems.values() for row in told["rows"]))[1:]
    columns = 4
    figure = new_figure(11, 2.6 * -(-len(kinds) // columns) + 0.4)
    grid = figure.subplots(-(-len(kinds) // columns), columns, squeeze=False, sharey=True).ravel()
    for axes, kind in zip(grid, kinds, strict=False):
        for n, (name, told) in enumerate(systems.items()):
            rows = [row for row in told["rows"] if row["attack"] == kind]
            at = [row["strength"] for row in rows]
            colour = CYCLE[n % len(CYCLE)]
            axes.plot(at, [row["error_percent"] for row in rows], "--", color=colour, lw=1)
            axes.plot(
                at, [row["undetected_error_percent"] for row in rows], "-o", color=colour, ms=3, label=name
            )
        axes.set_title(kind)
        axes.set_ylim(-3, 103)
    for axes in grid[len(kinds) :]:
        axes.axis("off")
    grid[0].set_ylabel("errors, percent")
    grid[0].legend(fontsize=7)
    figure.supxlabel("strength; dashed: all errors, lines: those that detection does not notice", fontsize=9)
    return save_figure(figure, out, "attacks")
