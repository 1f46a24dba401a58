"""Choosing the members of an ensemble on training images: each is judged by a network that has not learned from it.

A candidate is one setting, trained once for each fold (`--hold-out writers --fold K/N`), so that its N networks together give
scores for every training image, each from the one network that held it out. Members are then taken greedily, the one first
that lowers the loss of the mean score most (Caruana et al. 2004). The test set is never read. What is kept of a choice is the
setting: the ensemble's own networks are trained with it on all images.

Letters: N images, J classes.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor

from capsnet.config import FROM_WEIGHTS, parse_fold, trial_of, without_fold
from capsnet.data.hold_out import hold_out_rows
from capsnet.errors import CapsNetError
from capsnet.evaluate.compare import RESULT
from capsnet.evaluate.predictions import Predictions, predict
from capsnet.files import atomic_write, read_json
from capsnet.functional.losses import margin_loss
from capsnet.models.mixture import mix
from capsnet.opening import open_weights

FILE = "held_out.safetensors"


class Candidate(NamedTuple):
    """A setting with its scores for every training image."""

    name: str
    config: dict[str, Any]
    predictions: Predictions


class Choice(NamedTuple):
    """An ensemble of some candidates, and how good it is on the training images."""

    names: tuple[str, ...]
    loss: float
    errors: int


def read_candidates(
    folders: Sequence[Path], *, data_dir: Path | None = None, views: str | None = None
) -> list[Candidate]:
    """Put the runs of all folds together, each trial in the order of its first run."""
    trials: dict[str, list[tuple[Path, dict[str, Any]]]] = defaultdict(list)
    for folder in folders:
        if not (folder / RESULT).is_file():
            raise CapsNetError(f"'{folder}' holds no finished run.")
        config = read_json(folder / RESULT)["config"]
        if not config.get("fold"):
            raise CapsNetError(f"'{folder}' is not of a fold: train it with --hold-out writers --fold 1/5.")
        trials[trial_of(config)].append((folder, config))
    found = [join_folds(runs, data_dir, views) for runs in trials.values()]
    for other in found[1:]:
        if not other.predictions.same_images(found[0].predictions):
            raise CapsNetError(f"'{other.name}' and '{found[0].name}' are not of the same training images.")
    return found


def join_folds(
    runs: Sequence[tuple[Path, dict[str, Any]]], data_dir: Path | None, views: str | None
) -> Candidate:
    """Join the held-out predictions of one trial's folds; refuse folds that are missing or there twice."""
    name = without_fold(runs[0][0].name).removesuffix("-s0")
    parts = parse_fold(runs[0][1]["fold"])[1]
    have = sorted(config["fold"] for _, config in runs)
    expected = [f"{part}/{parts}" for part in range(1, parts + 1)]
    if have != sorted(expected):
        raise CapsNetError(f"'{name}' needs each of {', '.join(expected)} once; it has {', '.join(have)}.")
    rows, scores, classes = zip(*(held_out(folder, data_dir, views) for folder, _ in runs), strict=True)
    order = torch.cat(rows).argsort()
    joined = Predictions(torch.cat(scores)[order], torch.cat(classes)[order])
    return Candidate(name, {**runs[0][1], "fold": None}, joined)


def held_out(folder: Path, data_dir: Path | None, views: str | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows that a run held out, and its last weights' scores and classes there; kept beside the run."""
    if views is None and (folder / FILE).is_file():
        kept = load_file(folder / FILE)
        return kept["rows"], kept["scores"], kept["classes"]
    opened = open_weights(folder / "last", data_dir=data_dir)
    told, dataset = opened.trained_on, opened.dataset
    assert told is not None
    rows = hold_out_rows(dataset, told.hold_out, fold=told.fold, kept=told.limit, seed=told.seed)[1]
    assert rows is not None
    model = opened.model if views is None else mix([opened.model], views=views)
    made = predict(model, dataset, dataset.train.select(rows))
    if views is None:
        tensors = {"rows": rows, "scores": made.scores, "classes": made.classes}
        atomic_write(folder / FILE, to_bytes(tensors))
    return rows, made.scores, made.classes


def judge(candidates: Sequence[Candidate]) -> Choice:
    """Return how good the mean of some candidates' scores is."""
    scores = torch.stack([c.predictions.scores.double() for c in candidates]).mean(dim=0)
    together = Predictions(scores, candidates[0].predictions.classes)
    targets = torch.zeros_like(scores).scatter_(1, together.classes, 1.0)
    return Choice(
        tuple(c.name for c in candidates), float(margin_loss(scores, targets)), int(together.wrong().sum())
    )


def choose_greedily(candidates: Sequence[Candidate], most: int) -> list[Choice]:
    """Return the best single candidate, then the best with one more at each step, as long as the loss falls."""
    steps: list[Choice] = []
    taken: list[Candidate] = []
    while len(taken) < min(most, len(candidates)):
        left = [c for c in candidates if not any(c is other for other in taken)]
        best = min(left, key=lambda c: judge([*taken, c])[1:])
        step = judge([*taken, best])
        if steps and step.loss >= steps[-1].loss:
            break
        taken.append(best)
        steps.append(step)
    return steps


def describe_choice(candidates: Sequence[Candidate], steps: Sequence[Choice]) -> dict[str, Any]:
    """Return the result of a choice: every candidate alone, every step, and the settings to train the members with.

    A member that has a teacher is to learn from the one of that name without the fold: trained on all images too.
    """
    alone: list[Mapping[str, Any]] = [judge([c])._asdict() for c in candidates]
    by_name = {c.name: c for c in candidates}
    everything = {"fold": None, "hold_out": "images", "validation": 0, "test": True}

    def whole(config: dict[str, Any]) -> dict[str, Any]:
        return {**config, **everything, **{key: without_fold(config.get(key)) for key in FROM_WEIGHTS}}

    return {
        "dataset": candidates[0].config["dataset"],
        "selected_on": "out-of-fold",
        "images": len(candidates[0].predictions.classes),
        "candidates": [
            {"name": one["names"][0], "loss": one["loss"], "errors": one["errors"]} for one in alone
        ],
        "steps": [{"added": step.names[-1], "loss": step.loss, "errors": step.errors} for step in steps],
        "members": [{"name": n, "config": whole(by_name[n].config)} for n in steps[-1].names],
    }
