"""Is the length of a capsule a probability? Reliability before and after temperature scaling (Guo et al. 2017).

The confidence is the best class's score. A temperature T divides its log-odds (capsules, whose lengths are independent) or
all logits (softmax); it changes no answer. T is fitted on training images that the run held out, never on test images, by
the likelihood of being right. ECE: the mean gap between confidence and accuracy over 15 equal bins, weighted by images.

Letters: N images, J classes.
"""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capsnet.analysis.plotting import BLUE, GREY, ORANGE, new_figure, save_figure, write_csv
from capsnet.analysis.subject import Subject
from capsnet.data.base import Split
from capsnet.data.splits import default_validation_count, split_validation

BINS = 15
EPSILON = 1e-6


def confidence(scores: Tensor, temperature: float = 1.0, *, exclusive: bool) -> Tensor:
    """Return the best class's score at a temperature: (N, J) -> (N,)."""
    safe = scores.double().clamp(EPSILON, 1 - EPSILON)
    if exclusive:
        return (safe.log() / temperature).softmax(dim=1).amax(dim=1)
    return (torch.logit(safe.amax(dim=1)) / temperature).sigmoid()


def likelihood_loss(sure: Tensor, right: Tensor) -> float:
    """Return the mean negative log-likelihood of being right."""
    p = sure.clamp(EPSILON, 1 - EPSILON)
    return float(-torch.where(right, p.log(), (1 - p).log()).mean())


def fit_temperature(scores: Tensor, right: Tensor, *, exclusive: bool) -> float:
    """Find the temperature of least loss between 1/20 and 20, by golden section on its logarithm."""
    shrink = (math.sqrt(5) - 1) / 2
    low, high = math.log(0.05), math.log(20.0)

    def loss(log_t: float) -> float:
        return likelihood_loss(confidence(scores, math.exp(log_t), exclusive=exclusive), right)

    for _ in range(40):
        a, b = high - shrink * (high - low), low + shrink * (high - low)
        low, high = (low, b) if loss(a) < loss(b) else (a, high)
    return math.exp((low + high) / 2)


def reliability(sure: Tensor, right: Tensor) -> tuple[list[dict[str, Any]], float]:
    """Return the bins that hold images, and the expected calibration error in percent."""
    place = (sure * BINS).long().clamp(0, BINS - 1)
    rows, gap = [], 0.0
    for n in range(BINS):
        mine = place == n
        count = int(mine.sum())
        if count:
            said, was = float(sure[mine].mean()), float(right[mine].double().mean())
            rows.append(
                {
                    "low": n / BINS,
                    "high": (n + 1) / BINS,
                    "images": count,
                    "confidence": said,
                    "accuracy": was,
                }
            )
            gap += count * abs(said - was) / len(sure)
    return rows, 100 * gap


def held_out(subject: Subject) -> tuple[Split, str]:
    """Return images to fit on, and say which they are: those that training held out, wherever the weights tell."""
    opened, told, dataset = subject.opened, subject.opened.trained_on, subject.dataset
    if told is not None and told.split_recorded and opened.is_training_data:
        train, validation = opened.split_training()
        if validation is not None:
            which = f"fold {told.fold}" if told.fold else f"seed {told.seed}"
            return validation, f"the {len(validation.labels)} training images that {which} holds out"
        why = "training images that the network was trained on, as none were held out"
    else:
        train, why = dataset.train, "training images (the weights don't say which they were held out from)"
    count = min(max(default_validation_count(len(train.labels)), 1), len(train.labels) - 1)
    _, some = split_validation(train, count, told.seed if told is not None else 0)
    return some, f"{count} {why}"


def scores_of(subject: Subject, split: Split) -> tuple[Tensor, Tensor]:
    """Return the scores of a whole split, and whether the best one is right."""
    scores, right = [], []
    for batch in subject.dataset.evaluation_batches(split, 250):
        scores.append(subject.run(batch.images).scores)
        right.append(batch.targets.gather(1, scores[-1].argmax(dim=1, keepdim=True))[:, 0] > 0)
    return torch.cat(scores), torch.cat(right)


def analyse(subject: Subject, indices: Tensor, out: Path) -> dict[str, Any]:
    """Fit the temperature, draw the figure and write the numbers."""
    validation, fitted_on = held_out(subject)
    fit_scores, fit_right = scores_of(subject, validation)
    scores, right = scores_of(subject, subject.dataset.test.select(indices))
    exclusive = bool((scores.sum(dim=1) - 1).abs().max() < 1e-3)
    temperature = fit_temperature(fit_scores, fit_right, exclusive=exclusive)
    result: dict[str, Any] = {"images": len(right), "fitted_on": fitted_on, "temperature": temperature}
    rows = []
    for name, t in (("before", 1.0), ("after", temperature)):
        sure = confidence(scores, t, exclusive=exclusive)
        bins, error = reliability(sure, right)
        result[name] = {
            "ece_percent": error,
            "loss": likelihood_loss(sure, right),
            "mean_confidence": float(sure.mean()),
            "accuracy": float(right.double().mean()),
            "bins": bins,
        }
        rows += [{"temperature": name, **row} for row in bins]
    write_csv(out / "calibration.csv", rows)
    return {**result, "files": [str(f) for f in draw(subject, result, out)]}


def draw(subject: Subject, result: dict[str, Any], out: Path) -> list[Path]:
    """Draw accuracy against confidence, and the number of images in each bin."""
    figure = new_figure(7.0, 4.2)
    grid = figure.subplots(2, 2, sharex=True, height_ratios=[3, 1])
    for column, (name, colour) in enumerate((("before", BLUE), ("after", ORANGE))):
        upper, lower = grid[0][column], grid[1][column]
        bins = result[name]["bins"]
        middle = [(row["low"] + row["high"]) / 2 for row in bins]
        upper.plot([0, 1], [0, 1], "--", color=GREY, lw=1)
        upper.bar(middle, [row["accuracy"] for row in bins], 1 / BINS, color=colour, edgecolor="white")
        upper.plot(
            [row["confidence"] for row in bins], [row["accuracy"] for row in bins], "o", color="black", ms=3
        )
        at = "" if name == "before" else f" (T = {result['temperature']:.2f})"
        upper.set_title(f"{name} temperature scaling{at}\nECE {result[name]['ece_percent']:.2f} %")
        upper.set_ylim(0, 1.02)
        lower.bar(middle, [row["images"] for row in bins], 1 / BINS, color=colour, edgecolor="white")
        lower.set_yscale("log")
        lower.set_xlim(0, 1)
        lower.set_xlabel("confidence: the best class's score")
    grid[0][0].set_ylabel("accuracy")
    grid[1][0].set_ylabel("images")
    figure.suptitle(
        f"{subject.name} on {subject.dataset.name}, {result['images']:,} test images", fontsize=10
    )
    return save_figure(figure, out, "calibration")
