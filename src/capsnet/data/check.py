"""What is in a data set and what is wrong with it, before anything is trained: `capsnet data check`.

For your own pictures everything that can be found is found, not only the first fault. `Findings.problems` are what would
make a training fail or its test error wrong; `notes` are worth knowing.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor

from capsnet.data.base import DataSet
from capsnet.data.duplicates import exact_duplicates, near_duplicates
from capsnet.data.folder import find_empty, load_pictures, read_pictures
from capsnet.data.hold_out import hold_out_rows
from capsnet.data.listing import list_path, printable
from capsnet.data.manifest import Entry
from capsnet.data.own import Rule, split_digests
from capsnet.data.registry import check_options, is_path, load_dataset, usual_hold_out
from capsnet.errors import CapsNetError

SPLITS = ("train", "validation", "test")
UNEVEN = 10  # times as many pictures in the largest class as in the smallest are worth a word
FEW = 10  # training pictures of a class
TOLD = 5


@dataclass
class Findings:
    """All that was found; `to_dict` is what `--json` prints."""

    data: str
    layout: str = ""
    entries: list[Entry] = field(default_factory=list)
    class_names: list[str] = field(default_factory=list)
    sizes: Counter[tuple[int, ...]] = field(default_factory=Counter)
    colours: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)
    exact: list[list[int]] = field(default_factory=list)
    near: list[list[int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dataset: DataSet | None = None

    def counts(self) -> dict[str, dict[str, int]]:
        """The pictures of each class in each split."""
        table = {name: dict.fromkeys(SPLITS, 0) for name in self.class_names}
        for entry in self.entries:
            table[entry.label][entry.split or "train"] += 1
        return table

    def plan(self) -> str:
        """What a training would do."""
        if self.dataset is None:
            return "Training would refuse these data."
        totals = Counter(entry.split for entry in self.entries)
        shape = "x".join(map(str, self.dataset.image_shape))
        return (
            f"Training would learn from {totals['train']} pictures as {shape}, select on {totals['validation']} "
            f"and test on {totals['test']}."
        )

    def to_dict(self) -> dict[str, Any]:
        counts = self.counts()
        totals = {split: sum(row[split] for row in counts.values()) for split in SPLITS}
        sides = sorted(self.sizes, key=lambda size: size[0] * size[1])
        return {
            "data": self.data,
            "ok": not self.problems,
            "problems": self.problems,
            "notes": self.notes,
            "layout": self.layout,
            "images": sum(totals.values()),
            "splits": totals,
            "classes": [{"name": printable(name), **row} for name, row in counts.items()],
            "imbalance": _imbalance(counts),
            "groups": len({entry.group for entry in self.entries if entry.group}) or None,
            "sizes": {
                "different": len(sides),
                "smallest": list(sides[0]) if sides else None,
                "largest": list(sides[-1]) if sides else None,
            },
            "channels": dict(self.colours),
            "unreadable": [{"file": printable(name), "reason": why} for name, why in self.unreadable.items()],
            "duplicates": {"exact": self._clusters(self.exact), "near": self._clusters(self.near)},
            "plan": self.plan(),
            "image_shape": list(self.dataset.image_shape) if self.dataset else None,
        }

    def _clusters(self, clusters: list[list[int]]) -> list[dict[str, Any]]:
        return [
            {
                "files": [printable(self.entries[row].file) for row in rows],
                "classes": sorted({printable(self.entries[row].label) for row in rows}),
                "splits": sorted({self.entries[row].split for row in rows}),
            }
            for rows in clusters
        ]


def check_data(
    name: str, data_dir: Path | None = None, *, hold_out: str | None = None, seed: int = 0, **options: Any
) -> Findings:
    """Look at a data set, by its name or path, as a training with these settings would divide it."""
    check_options(name, options)
    files = is_path(name) and Path(name).suffix.lower() != ".npz"
    try:
        found = _look_at_files(name, options) if files else _look_at_arrays(name, data_dir, options)
    except CapsNetError as error:
        if not Path(name).expanduser().exists():
            raise
        return Findings(name, problems=[str(error)])
    findings, images = found
    if findings.dataset:
        _mark_validation(findings, hold_out or usual_hold_out(name), seed)
    _look_for_duplicates(findings, images)
    _look_at_groups(findings)
    _look_at_counts(findings)
    return findings


def _look_at_files(name: str, options: dict[str, Any]) -> tuple[Findings, UInt8[Tensor, "n c h w"]]:
    path = Path(name).expanduser()
    listing = list_path(path, options.get("group_by"))
    findings = Findings(name, listing.layout, class_names=listing.class_names)
    findings.problems, findings.notes = list(listing.problems), list(listing.notes)
    pictures = read_pictures(listing, options.get("image_size"), options.get("channels"))
    findings.unreadable = pictures.problems
    findings.sizes = Counter((h.height, h.width) for h in pictures.headers)
    findings.colours = Counter("grey" if h.grey else "colour" for h in pictures.headers)
    if pictures.problems:
        count, some = len(pictures.problems), _some(pictures.problems.values())
        findings.problems.append(f"{count} files cannot be read; replace or delete them: {some}")
    empty = find_empty(listing, pictures) if not listing.problems else []
    findings.problems += empty
    findings.entries, images = pictures.entries(listing), torch.from_numpy(pictures.images)
    if listing.problems or empty:
        return findings, images
    try:
        rule = Rule(options.get("split", "content"), options.get("split_seed", 0))
        findings.dataset = load_pictures(listing, pictures, rule)
    except CapsNetError as error:
        findings.problems.append(str(error))
        return findings, images
    place = {entry.file: row for row, entry in enumerate(findings.entries)}
    findings.entries = list(findings.dataset.manifest)
    return findings, images[torch.tensor([place[entry.file] for entry in findings.entries], dtype=torch.long)]


def _look_at_arrays(
    name: str, data_dir: Path | None, options: dict[str, Any]
) -> tuple[Findings, UInt8[Tensor, "n c h w"]]:
    dataset = load_dataset(name, data_dir, **options)
    findings = Findings(name, "arrays" if is_path(name) else "a registered data set", dataset=dataset)
    findings.class_names = list(dataset.class_names)
    images = torch.cat([dataset.train.images, dataset.test.images])
    findings.entries = list(dataset.manifest) or [
        Entry(f"{part}[{n}]", dataset.class_names[label], "", part, digest)
        for part, split in (("train", dataset.train), ("test", dataset.test))
        for n, (label, digest) in enumerate(zip(split.labels.tolist(), split_digests(split), strict=True))
    ]
    findings.sizes = Counter({tuple(images.shape[2:]): len(images)})
    channels = {1: "grey", 2: "stereo pairs", 3: "colour"}.get(images.shape[1], f"{images.shape[1]} channels")
    findings.colours = Counter({channels: len(images)})
    return findings, images


def _mark_validation(findings: Findings, hold_out: str, seed: int) -> None:
    """Say which of the training pictures a training would validate on."""
    assert findings.dataset is not None
    try:
        _, held_out = hold_out_rows(findings.dataset, hold_out, seed=seed)
    except CapsNetError as error:
        findings.problems.append(str(error))
        return
    for row in held_out.tolist() if held_out is not None else []:
        findings.entries[row] = findings.entries[row]._replace(split="validation")


def _look_for_duplicates(findings: Findings, images: UInt8[Tensor, "n c h w"]) -> None:
    entries = findings.entries
    findings.exact = exact_duplicates([entry.digest for entry in entries])
    copies = {row for rows in findings.exact if _alike(entries, rows) for row in rows[1:]}
    rest = [row for row in range(len(entries)) if row not in copies]
    near = near_duplicates(images, [entry.split for entry in entries], torch.tensor(rest, dtype=torch.long))
    known = [set(rows) for rows in findings.exact]
    findings.near = [rows for rows in near if not any(set(rows) <= same for same in known)]
    for how, found in (("", findings.exact), (", nearly the same", findings.near)):
        across = [rows for rows in found if len({entries[row].split for row in rows}) > 1]
        mixed = [rows for rows in found if len({entries[row].label for row in rows}) > 1]
        within = [rows for rows in found if rows not in across and rows not in mixed]
        if across:
            findings.problems.append(
                f"Pictures in more than one split{how}: {len(across)}, which makes errors look smaller than they are; "
                f"keep one of each, or give --group-by: {_equal(entries, across)}"
            )
        if mixed:
            # Different classes may look alike; the very same picture can only be of one.
            (findings.notes if how else findings.problems).append(
                f"Pictures in more than one class{how}: {len(mixed)}; keep the right one: {_equal(entries, mixed)}"
            )
        if within:
            findings.notes.append(
                f"Repeated pictures{how}, in one split and class: {len(within)}: {_equal(entries, within)}"
            )


def _equal(entries: list[Entry], clusters: list[list[int]]) -> str:
    """Some clusters of duplicates, by their files' names."""
    return _some(
        " = ".join(f"{entries[row].file} ({entries[row].split})" for row in rows[:3]) for rows in clusters
    )


def _alike(entries: list[Entry], rows: list[int]) -> bool:
    """Whether all copies of a picture are in one split and class, so that one of them stands for all."""
    return len({(entries[row].split, entries[row].label) for row in rows}) == 1


def _look_at_groups(findings: Findings) -> None:
    splits: dict[str, set[str]] = {}
    for entry in findings.entries:
        if entry.group and entry.split:
            splits.setdefault(entry.group, set()).add(entry.split)
    divided = [f"{group} ({', '.join(sorted(where))})" for group, where in splits.items() if len(where) > 1]
    if divided:
        findings.problems.append(f"{len(divided)} groups are in more than one split: {_some(divided)}")


def _look_at_counts(findings: Findings) -> None:
    counts = findings.counts()
    ratio = _imbalance(counts)
    if ratio is not None and ratio >= UNEVEN:
        findings.notes.append(
            f"The largest class has {ratio:.0f} times as many pictures as the smallest: scores will favour it."
        )
    few = [f"{printable(name)} ({row['train']})" for name, row in counts.items() if 0 < row["train"] < FEW]
    if few:
        findings.notes.append(f"Classes of fewer than {FEW} training pictures learn little: {_some(few)}")


def _imbalance(counts: dict[str, dict[str, int]]) -> float | None:
    totals = [sum(row.values()) for row in counts.values()]
    return max(totals) / min(totals) if all(totals) and totals else None


def _some(items: Iterable[str]) -> str:
    shown = [printable(item).rstrip(".") for item in items]
    return "; ".join(shown[:TOLD]) + (f"; and {len(shown) - TOLD} more." if len(shown) > TOLD else ".")
