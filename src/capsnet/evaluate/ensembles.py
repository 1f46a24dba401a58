"""Ensembles: the mean of several networks' scores, from the predictions that their runs kept.

Members are ordered by their validation error, so the choice does not use the test images. The paper chose on the test set
(MNIST accuracy above 0.9973, MultiMNIST above 0.9470, smallNORB the best two), and the epoch of each member too;
`select_on_test` does that, and the result says so. Classes are matched by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capsnet.errors import CapsNetError
from capsnet.evaluate.compare import RESULT, SUB_FOLDER, finished_runs
from capsnet.evaluate.predictions import BEST_ON_TEST, FILE, Predictions, predict_test, read_predictions
from capsnet.files import read_json
from capsnet.models.mixture import mix
from capsnet.opening import open_weights
from capsnet.saving import has_weights, load_card


@dataclass(frozen=True)
class Member:
    """A network and its scores on the test set; `class_names` is empty when the names are unknown.

    Attributes:
        epoch: of the predictions, where it was chosen on the test set.
    """

    run: str
    seed: int | None
    dataset: str
    validation_error_percent: float | None
    predictions: Predictions
    class_names: tuple[str, ...] = ()
    epoch: int | None = None


def open_members(
    places: Sequence[str],
    *,
    data_dir: Path | None = None,
    patches: int = 1,
    views: str | None = None,
    best_on_test: bool = False,
) -> list[Member]:
    """Open runs, all runs of trials folders, and weights by name; those without kept predictions are tested now.

    Args:
        patches, views: average each network's scores over so many crops, or over views (`capsnet.layers.views`).
        best_on_test: take each run's epoch with the fewest test errors, where the run watched them.
    """
    members = []
    for place in places:
        path = Path(place)
        is_weights = not path.is_dir() or (path / "model.safetensors").is_file()
        for folder in [None] if is_weights else finished_runs(path).values():
            members.append(open_member(place, folder, data_dir, patches, views, best_on_test))
    sets = {member.dataset for member in members}
    if len(sets) > 1:
        raise CapsNetError(f"An ensemble is of one data set; these are of {', '.join(sorted(sets))}.")
    members = [members[0], *(in_order_of(members[0], member) for member in members[1:])]
    for member in members[1:]:
        if not member.predictions.same_images(members[0].predictions):
            raise CapsNetError(f"'{member.run}' and '{members[0].run}' were not tested on the same images.")
    return members


def open_member(
    place: str,
    folder: Path | None,
    data_dir: Path | None,
    patches: int = 1,
    views: str | None = None,
    best_on_test: bool = False,
) -> Member:
    """Read the predictions that a run kept, or make them."""
    if folder is not None and patches == 1 and views is None and (folder / FILE).is_file():
        result = read_json(folder / RESULT)
        watched = best_on_test and (folder / BEST_ON_TEST).is_file()
        return Member(
            str(folder),
            result["seed"],
            result["dataset"],
            result["validation_error_percent"],
            read_predictions(folder, BEST_ON_TEST if watched else FILE),
            load_card(folder).class_names if has_weights(folder) else (),
            result["best_on_test"]["epoch"] if watched else None,
        )
    opened = open_weights(folder or place, data_dir=data_dir)
    card, dataset = opened.model.card, opened.dataset
    model = opened.model if views is None else mix([opened.model], views=views)
    predictions = predict_test(model, dataset, patches=patches)
    error = card.score.get("validation_error_percent")
    name = card.provenance["dataset"]
    return Member(
        str(folder or place), card.provenance.get("seed"), name, error, predictions, dataset.class_names
    )


def in_order_of(first: Member, member: Member) -> Member:
    """Put a member's classes into the first one's order, by name; refuse one that has other classes."""
    if not first.class_names or not member.class_names or first.class_names == member.class_names:
        return member
    if set(first.class_names) != set(member.class_names):
        raise CapsNetError(f"'{member.run}' and '{first.run}' have different classes.")
    there = torch.tensor([member.class_names.index(name) for name in first.class_names])
    here = there.argsort()  # the first member's number of each of this member's classes
    predictions = Predictions(member.predictions.scores[:, there], here[member.predictions.classes])
    return replace(member, predictions=predictions, class_names=first.class_names)


def short_names(runs: Sequence[str]) -> list[str]:
    """Name each run by the end of its path: as many folders as tell the runs apart, so that no path of this machine is kept."""
    parts = [Path(run).parts for run in runs]
    # A trial's own folder, such as s0, says nothing without that of its trials.
    count = 2 if any(SUB_FOLDER.fullmatch(part[-1]) for part in parts if part) else 1
    longest = max(map(len, parts), default=1)
    while count < longest and len({part[-count:] for part in parts}) < len(set(parts)):
        count += 1
    return ["/".join(part[-count:]).lstrip("/") for part in parts]


def choose(
    members: Sequence[Member],
    *,
    best: int | None = None,
    above: float | None = None,
    select_on_test: bool = False,
) -> list[Member]:
    """Sort the members by their error, lowest first, and keep the `best` ones, those with an accuracy `above`, or all."""

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
    """Average the members' scores: the ensemble's own predictions."""
    scores = torch.stack([member.predictions.scores.double() for member in members])
    return Predictions(scores.mean(dim=0), members[0].predictions.classes)


def answers(predictions: Predictions) -> Tensor:
    """Return the K classes that each image is said to show (N, K), in order."""
    k = predictions.classes.shape[1]
    return predictions.scores.topk(k, dim=1).indices.sort(dim=1).values


def describe_ensemble(members: Sequence[Member], *, selected_on: str | None) -> dict[str, Any]:
    """Describe each member, the ensemble, and for the first 1, 2, ... members the error and how many images all agree on.

    Args:
        selected_on: validation or test; None when all members were taken.
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
                "run": name,
                "seed": member.seed,
                "validation_error_percent": member.validation_error_percent,
                **({"epoch_chosen_on_test": member.epoch} if member.epoch is not None else {}),
                **{f"test_{k}": v for k, v in member.predictions.named_errors().items()},
            }
            for name, member in zip(short_names([member.run for member in members]), members, strict=True)
        ],
        "ensemble": {
            "errors": int(together.wrong().sum()),
            **{f"test_{k}": v for k, v in together.named_errors().items()},
        },
        "curve": curve,
    }
