"""What validation takes away from the training images: drawn from a seed, or one of a few fixed parts (a fold).

A way to hold out says which images stay together. "images" are on their own; your own pictures with the group or the
exact duplicates that they have, and each by its content (`capsnet.data.content_split`). "stretches" are runs of the
stored order, for sets that are stored source by source. Any other way is one of the data set's groups, such as "writers"
or "objects".

Letters: N images, G groups, J classes.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Generator, Tensor

from capsnet.config import parse_fold
from capsnet.data.base import DataSet, Split
from capsnet.data.content_split import set_aside_by_content
from capsnet.data.manifest import Manifest
from capsnet.data.splits import (
    STRETCHES,
    VALIDATION_MOST,
    VALIDATION_SHARE,
    default_validation_count,
    limited_rows,
    shares,
    stretch_rows,
    validation_rows,
)
from capsnet.errors import CapsNetError, unknown_name


def hold_out(
    data: DataSet,
    way: str = "images",
    *,
    fold: str | None = None,
    count: int | None = None,
    kept: int | None = None,
    seed: int = 0,
) -> tuple[Split, Split | None]:
    """Return the images to train on and, if there are any, those to validate on: `data.validation` unless a count or fold
    is given.

    Args:
        way: "images", "stretches" or a name in `data.groups`.
        fold: such as "2/5": validate on the second of five parts, the same for every seed, whatever `count` is.
        count: how many images to validate on otherwise, 0 for none; with groups, whole ones that are at least so many.
        kept: how many images to keep, in a shuffle by the seed; a fold is taken away before it, a count after it.
        seed: of the shuffle, and of what is drawn.
    """
    rows, held_out = hold_out_rows(data, way, fold=fold, count=count, kept=kept, seed=seed)
    everything = kept is None and len(rows) == len(data.train.labels)
    train = data.train if everything else data.train.select(rows)
    if held_out is not None:
        return train, data.train.select(held_out)
    return train, None if count == 0 else data.validation


def divide_by_manifest(dataset: DataSet, manifest: Manifest) -> tuple[Split, Split | None]:
    """Return the training and the validation images that a run's manifest names, of those that are still there."""
    recorded = {entry.file: entry.split for entry in manifest.entries}
    mine = [recorded[entry.file] for entry in dataset.manifest[: len(dataset.train.labels)]]
    train, held_out = (
        torch.tensor([n for n, part in enumerate(mine) if part == wanted], dtype=torch.long)
        for wanted in ("train", "validation")
    )
    return dataset.train.select(train), dataset.train.select(held_out) if len(
        held_out
    ) else dataset.validation


def hold_out_rows(
    data: DataSet,
    way: str = "images",
    *,
    fold: str | None = None,
    count: int | None = None,
    kept: int | None = None,
    seed: int = 0,
) -> tuple[Int[Tensor, "m"], Int[Tensor, "k"] | None]:
    """Return which training images to train on, in order, and which to validate on; None where none of them are."""
    groups = find_groups(data, way, fold)
    rows = torch.arange(len(groups))
    if fold is not None:
        part, parts = parse_fold(fold)
        train, validation = divide(data, way, rows, deal(data.train.labels, groups, parts) == part - 1)
        return train if kept is None else train[limited_rows(len(train), kept, seed)], validation
    if kept is not None:
        rows = limited_rows(len(groups), kept, seed)
    labels = data.train.labels[rows]
    if count == 0 or (count is None and data.validation is not None):
        return rows, None
    if way == "images" and data.units:
        away = draw_by_content(data, rows, count, seed)
        # Too few pictures for one to spare: by default none is held out, as in a data set of fewer than ten images.
        return divide(data, "units", rows, away) if count is not None or away.any() else (rows, None)
    if count is None:
        count = default_validation_count(len(rows))
    if count == 0:
        return rows, None
    if way in ("images", "stretches"):
        away = (
            validation_rows(labels, count, seed) if way == "images" else stretch_rows(len(rows), count, seed)
        )
        return rows[~away], rows[away]
    return divide(data, way, rows, draw(labels, groups[rows], count, seed))


def draw_by_content(data: DataSet, rows: Int[Tensor, "n"], count: int | None, seed: int) -> Bool[Tensor, "n"]:
    """Return which of your own pictures to hold out: about `count`, or a tenth, whole units, each by its own content."""
    n = len(rows)
    if count is not None and not 0 <= count < n:
        raise CapsNetError(
            f"{count} of {n} images cannot be validation images; at least 0 and at most {n - 1} can."
        )
    share = min(VALIDATION_SHARE, VALIDATION_MOST / n) if count is None else count / n
    units = [data.units[row] for row in rows.tolist()]
    labels = data.train.labels[rows].tolist()
    return torch.tensor(set_aside_by_content(units, labels, share, f"validation {seed}"))


def find_groups(data: DataSet, way: str, fold: str | None = None) -> Int[Tensor, "n"]:
    """Return the group of each training image; with a fold, check that there are enough groups for its parts."""
    n = len(data.train.labels)
    parts = parse_fold(fold)[1] if fold else 1
    ways = {
        **data.groups,
        "images": _numbers(data.units) if data.units else torch.arange(n),
        "stretches": torch.arange(n) * (STRETCHES * parts) // n,
    }
    if way not in ways:
        raise unknown_name("way to hold out images", way, ways, f"for '{data.name}'")
    there_are = len(ways[way].unique())
    if there_are < parts:
        raise CapsNetError(f"'{data.name}' has {there_are} {way}, too few for the {parts} parts of {fold}.")
    return ways[way]


def deal(labels: Int[Tensor, "n"], groups: Int[Tensor, "n"], parts: int) -> Int[Tensor, "n"]:
    """Return the part, from 0, of each image: whole groups, equal numbers of images, the same every time.

    The groups of a class, and those of several classes, are dealt by their numbers, one to each part, the largest to the
    part with the fewest images yet. So parts differ by at most one group of a class; and where neighbouring numbers are
    alike, as those of writers from the same source are, each part has as many of them.
    """
    numbers, place, sizes = _tally(groups)
    part = torch.zeros(len(numbers), dtype=torch.long)
    filled = [0] * parts
    for members in _by_class(labels, place, len(numbers)):
        for round_ in members.split(parts):
            emptiest = sorted(range(parts), key=filled.__getitem__)
            largest = sorted(round_.tolist(), key=lambda group: -sizes[group])
            for group, target in zip(largest, emptiest, strict=False):
                part[group] = target
                filled[target] += sizes[group]
    return part[place]


def draw(labels: Int[Tensor, "n"], groups: Int[Tensor, "n"], count: int, seed: int) -> Bool[Tensor, "n"]:
    """Return which images to hold out: of each class, random whole groups until they have its share of `count` images.

    At least one group of each class, and groups of several classes together as if they were one more class.
    """
    numbers, place, sizes = _tally(groups)
    generator = Generator().manual_seed(seed)
    away = torch.zeros(len(numbers), dtype=torch.bool)
    classes = _by_class(labels, place, len(numbers))
    images = torch.tensor([sum(sizes[group] for group in members.tolist()) for members in classes])
    for members, share in zip(classes, shares(images, min(count, len(labels))).tolist(), strict=True):
        taken = 0
        for group in members[torch.randperm(len(members), generator=generator)].tolist():
            if taken >= max(share, 1):
                break
            away[group] = True
            taken += sizes[group]
    return away[place]


def divide(
    data: DataSet, way: str, rows: Int[Tensor, "n"], away: Bool[Tensor, "n"]
) -> tuple[Int[Tensor, "m"], Int[Tensor, "k"]]:
    """Return the rows that stay and those that are held out; refuse to hold out all images of a class."""
    labels = data.train.labels
    if not away.any():
        raise CapsNetError(
            f"None of the {len(rows)} training images of '{data.name}' can be held out, as each is the last of its class: "
            "give more images, or --validation 0."
        )
    for label in labels[rows].unique().tolist():
        if not bool((labels[rows[~away]] == label).any()):
            raise CapsNetError(
                f"Holding out whole {way} of '{data.name}' leaves no training images of class '{data.class_names[label]}': "
                "hold out fewer, or images one by one."
            )
    return rows[~away], rows[away]


def _numbers(units: Sequence[str]) -> Int[Tensor, "n"]:
    """The number of each unit."""
    number = {unit: n for n, unit in enumerate(sorted(set(units)))}
    return torch.tensor([number[unit] for unit in units])


def _tally(groups: Int[Tensor, "n"]) -> tuple[Int[Tensor, "g"], Int[Tensor, "n"], list[int]]:
    """Each group's number, in order; each image's place in that list; each group's number of images."""
    numbers, place, sizes = groups.unique(return_inverse=True, return_counts=True)
    return numbers, place, sizes.tolist()


def _by_class(labels: Int[Tensor, "n"], place: Int[Tensor, "n"], groups: int) -> list[Int[Tensor, "_"]]:
    """The groups of each class, and those with images of several classes, wherever there are any."""
    lowest = torch.zeros(groups, dtype=torch.long).scatter_reduce(
        0, place, labels, "amin", include_self=False
    )
    highest = torch.zeros(groups, dtype=torch.long).scatter_reduce(
        0, place, labels, "amax", include_self=False
    )
    only = torch.where(lowest == highest, lowest, int(labels.max()) + 1)
    return [torch.nonzero(only == label).flatten() for label in only.unique()]
