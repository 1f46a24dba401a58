"""What all data of one's own have in common, wherever they were read from: parts, groups, the manifest, digests."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from capsnet.data.base import DataSet, Split
from capsnet.data.compose import Compose
from capsnet.data.content_split import find_units, set_aside_by_content
from capsnet.data.listing import printable
from capsnet.data.manifest import Changes, Entry, Manifest, compare
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.splits import validation_rows
from capsnet.errors import CapsNetError

DEFAULT_AUGMENTATION = ("shift", "rotate")
TEST_SHARE = 0.2
RULES = ("content", "order")


@dataclass(frozen=True)
class OwnDataSet(DataSet):
    """`unreadable` has the files that were left out, each with the reason; `notes` what was passed over."""

    unreadable: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """How a test part is set aside where the data have none.

    Attributes:
        by: "content" (`capsnet.data.content_split`), or "order", the rule of runs that have no manifest: a fifth of each
            class by the number of files.
        seed: of the rule by content.
        manifest: a run's division, to be followed in place of any rule.
    """

    by: str = "content"
    seed: int = 0
    manifest: Manifest | None = None

    def __post_init__(self) -> None:
        if self.by not in RULES:
            raise CapsNetError(f"Own pictures are split by {' or by '.join(RULES)}, not by '{self.by}'.")


def divide(
    entries: Sequence[Entry], class_names: Sequence[str], place: Path, rule: Rule
) -> tuple[list[Entry], Changes | None]:
    """Give every picture its split: what the data or the manifest say, else a test part by the rule.

    With a manifest, only the pictures that are as it says are given back.
    """
    if rule.manifest is not None:
        return _follow(rule.manifest, entries), compare(rule.manifest, {e.file: e.digest for e in entries})
    if any(entry.split == "test" for entry in entries):
        return list(entries), None
    undecided = [entry for entry in entries if not entry.split]
    labels = [class_names.index(entry.label) for entry in undecided]
    if rule.by == "order":
        units = tuple(entry.file for entry in undecided)
    else:
        units = find_units([entry.digest for entry in undecided], [entry.group for entry in undecided])
    _require_two_units(units, undecided, place)
    if rule.by == "order":
        count = max(len(set(labels)), round(TEST_SHARE * len(labels)))
        away = validation_rows(torch.tensor(labels), count, seed=0).tolist()
    else:
        away = set_aside_by_content(units, labels, TEST_SHARE, f"test {rule.seed}")
    drawn = iter(away)
    return [e if e.split else e._replace(split="test" if next(drawn) else "train") for e in entries], None


def _follow(manifest: Manifest, entries: Sequence[Entry]) -> list[Entry]:
    """The pictures that are still as the manifest says. What training drew from its own part to validate on is drawn again."""
    kept = {entry.file: entry for entry in manifest.entries}
    followed = []
    for entry in entries:
        before = kept.get(entry.file)
        if before and before.digest == entry.digest:
            training = "validation" if entry.split == "validation" else "train"
            split = "test" if before.split == "test" else training
            followed.append(entry._replace(split=split, group=before.group))
    return followed


def _require_two_units(units: Sequence[str], entries: Sequence[Entry], place: Path) -> None:
    of_class: dict[str, list[str]] = {}
    for unit, entry in zip(units, entries, strict=True):
        of_class.setdefault(entry.label, []).append(unit)
    for name, members in of_class.items():
        if len(set(members)) < 2:
            what = "only one picture" if len(members) == 1 else "only one picture, or one group of them,"
            raise CapsNetError(
                f"{place} has {what} of class '{name}': none is left to test on; add others, or a test part."
            )


def make_own(
    name: str,
    images: UInt8[Tensor, "n c h w"],
    entries: Sequence[Entry],
    class_names: Sequence[str],
    *,
    changes: Changes | None = None,
    unreadable: tuple[tuple[str, str], ...] = (),
    notes: tuple[str, ...] = (),
) -> OwnDataSet:
    """Make a data set of pictures / 255, gently augmented by default, from divided entries and their images."""
    shown = tuple(printable(name) for name in class_names)
    number = {label: n for n, label in enumerate(class_names)}
    splits, ordered = {}, []
    for part in ("train", "validation", "test"):
        rows = [n for n, entry in enumerate(entries) if entry.split == part]
        labels = torch.tensor([number[entries[n].label] for n in rows], dtype=torch.long)
        splits[part] = Split(images[torch.tensor(rows, dtype=torch.long)], labels)
        ordered += [entries[n] for n in rows]
    train = ordered[: len(splits["train"].labels)]
    grouped = any(entry.group for entry in train)
    units = find_units([entry.digest for entry in train], [entry.group for entry in train])
    numbers = {unit: n for n, unit in enumerate(sorted(set(units)))}
    channels, height, width = images.shape[1:]
    preprocessing = Preprocessing("picture", 255.0)
    return OwnDataSet(
        name=name,
        train=splits["train"],
        test=splits["test"],
        class_names=shown,
        preprocessing=preprocessing,
        image_shape=(channels, height, width),
        augmentations={",".join(DEFAULT_AUGMENTATION): Compose(DEFAULT_AUGMENTATION, preprocessing)},
        digests={"train": split_digest(splits["train"]), "test": split_digest(splits["test"])},
        groups={"groups": torch.tensor([numbers[unit] for unit in units])} if grouped else {},
        validation=splits["validation"] if len(splits["validation"].labels) else None,
        units=units,
        manifest=tuple(ordered),
        changes=changes,
        unreadable=unreadable,
        notes=notes,
    )


def split_digest(split: Split) -> str:
    """The SHA-256 of the pixels and labels."""
    digest = hashlib.sha256(split.images.contiguous().numpy().data)
    digest.update(split.labels.numpy().tobytes())
    return digest.hexdigest()


def split_digests(split: Split) -> list[str]:
    """The SHA-256 of each image's pixels."""
    return [hashlib.sha256(image.numpy().tobytes()).hexdigest() for image in split.images]
