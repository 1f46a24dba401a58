"""Ensembles: the mean of several networks' scores, from the predictions that their runs kept.

Members are taken in the order of their validation error, so that the choice owes nothing to the test images. The paper
chose on the test set (MNIST accuracy above 0.9973, MultiMNIST above 0.9470, smallNORB the best two); `select_on_test`
does that too, and the result says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capsnet.data import load_dataset
from capsnet.errors import CapsNetError
from capsnet.evaluate.compare import RESULT, finished_runs
from capsnet.evaluate.predictions import FILE, Predictions, predict_test, read_predictions
from capsnet.files import read_json
from capsnet.saving import load


@dataclass(frozen=True)
class Member:
    """A network and its scores on the test set."""

    run: str
    seed: int | None
    dataset: str
    validation_error_percent: float | None
    predictions: Predictions


def open_members(places: Sequence[str], *, data_dir: Path | None = None, patches: int = 1) -> list[Member]:
    """Runs, all runs of trials folders, and weights by name; those without kept predictions are tested now."""
    members = []
    for place in places:
        path = Path(place)
        is_weights = not path.is_dir() or (path / "model.safetensors").is_file()
        for folder in [None] if is_weights else finished_runs(path).values():
            members.append(open_member(place, folder, data_dir, patches))
    sets = {member.dataset for member in members}
    if len(sets) > 1:
        raise CapsNetError(f"An ensemble is of one data set; these are of {', '.join(sorted(sets))}.")
    for member in members[1:]:
        if not member.predictions.same_images(members[0].predictions):
            raise CapsNetError(f"'{member.run}' and '{members[0].run}' were not tested on the same images.")
    return members


def open_member(place: str, folder: Path | None, data_dir: Path | None, patches: int) -> Member:
    if folder is not None and patches == 1 and (folder / FILE).is_file():
        result = read_json(folder / RESULT)
        return Member(
            str(folder),
            result["seed"],
            result["dataset"],
            result["validation_error_percent"],
            read_predictions(folder),
        )
    model = load(folder or place)
    told, score = model.card.provenance, model.card.score
    if "dataset" not in told:
        raise CapsNetError(f"The weights '{place}' don't say what they were trained on.")
    predictions = predict_test(model, load_dataset(told["dataset"], data_dir=data_dir), patches=patches)
    error = score.get("validation_error_percent")
    return Member(str(folder or place), told.get("seed"), told["dataset"], error, predictions)


def choose(
    members: Sequence[Member],
    *,
    best: int | None = None,
    above: float | None = None,
    select_on_test: bool = False,
) -> list[Member]:
    """The members by their error, lowest first: the `best` ones, those with an accuracy `above`, or all."""

    def error(member: Member) -> float:
        if select_on_test:
            # MultiMNIST's thresholds are of the digits, which is what the authors' program counts.
            return list(member.predictions.named_errors().values())[-1]
        if member.validation_error_percent is None:
            raise CapsNetError(f"'{member.run}' was trained without validation images, so none select it.")
        return member.validation_error_percent

    if best is None and above is None and not select_on_test:
        known = all(member.validation_error_percent is not None for member in members)
        return sorted(members, key=error) if known else list(members)
    chosen = sorted(members, key=error)
    if above is not None:
        chosen = [member for member in chosen if error(member) < 100 * (1 - above)]
        if not chosen:
            kind = "test" if select_on_test else "validation"
            raise CapsNetError(f"No member has a {kind} accuracy above {above}.")
    return chosen[:best]


def mean_scores(members: Sequence[Member]) -> Predictions:
    """The ensemble's own predictions."""
    scores = torch.stack([member.predictions.scores.double() for member in members])
    return Predictions(scores.mean(dim=0), members[0].predictions.classes)


def answers(predictions: Predictions) -> Tensor:
    """The classes that are said to be there (N, K), in order."""
    k = predictions.classes.shape[1]
    return predictions.scores.topk(k, dim=1).indices.sort(dim=1).values


def describe_ensemble(members: Sequence[Member], *, selected_on: str | None) -> dict[str, Any]:
    """Each member, the ensemble, and with 1, 2, ... of them: its error and how many images all agree on.

    Args:
        selected_on: validation or test, or None for members that were not chosen.
    """
    curve, agreed = [], None
    first = answers(members[0].predictions)
    for count, member in enumerate(members, start=1):
        same = (answers(member.predictions) == first).all(dim=1)
        agreed = same if agreed is None else agreed & same
        percent = round(100 * float(agreed.double().mean()), 6)
        errors = mean_scores(members[:count]).named_errors()
        curve.append({"members": count, "agreement_percent": percent, **errors})
    together = mean_scores(members)
    return {
        "dataset": members[0].dataset,
        "selected_on": selected_on,
        "images": len(together.classes),
        "members": [
            {
                "run": "/".join(
                    Path(member.run).parts[-3:]
                ),  # where the folders lie is this machine's affair
                "seed": member.seed,
                "validation_error_percent": member.validation_error_percent,
                **{f"test_{k}": v for k, v in member.predictions.named_errors().items()},
            }
            for member in members
        ],
        "ensemble": {
            "errors": int(together.wrong().sum()),
            **{f"test_{k}": v for k, v in together.named_errors().items()},
        },
        "curve": curve,
    }
