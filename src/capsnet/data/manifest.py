"""A run's manifest: which file of your own pictures was in which split, so that the division outlives changes of the folder.

`manifest.csv` in the run folder has the columns file, class, group, split and digest (SHA-256 of the file's bytes, or of
the pixels in an .npz). `load_divided` reads the data again by it and says what has changed. Runs from before there
were manifests had their test images chosen by the number of files; their data are read that way again (`split="order"`),
so that recorded numbers hold.
"""

import csv
import hashlib
import io
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from capsnet.errors import CapsNetError
from capsnet.files import atomic_write

if TYPE_CHECKING:
    from capsnet.data.base import DataSet

FILE = "manifest.csv"
COLUMNS = ("file", "class", "group", "split", "digest")
WEIGHTS = ("best", "last")
TOLD = 3

logger = logging.getLogger("capsnet.data")


class Entry(NamedTuple):
    """One picture: name, class, group, split ("train", "validation", "test", "unused"), and the digest of its content."""

    file: str
    label: str
    group: str
    split: str
    digest: str


class Manifest(NamedTuple):
    """A division of pictures, and where it was read from."""

    place: Path
    entries: tuple[Entry, ...]


class Changes(NamedTuple):
    """What differs between a manifest and the files there are."""

    missing: tuple[str, ...]
    altered: tuple[str, ...]
    added: tuple[str, ...]

    def describe(self) -> str:
        """What happened to the files, with some of their names; empty when nothing did."""
        words = {
            "missing": self.missing,
            "altered": self.altered,
            "added since": self.added,
        }
        return "; ".join(f"{len(files)} {word} ({_some(files)})" for word, files in words.items() if files)


def compare(manifest: Manifest, found: Mapping[str, str]) -> Changes:
    """Compare with the digests of the files there are, by name."""
    kept = {entry.file: entry.digest for entry in manifest.entries}
    return Changes(
        missing=tuple(file for file in kept if file not in found),
        altered=tuple(file for file, digest in kept.items() if found.get(file, digest) != digest),
        added=tuple(file for file in found if file not in kept),
    )


def manifest_bytes(entries: Iterable[Entry]) -> bytes:
    """The content of a manifest's file; names that are no text keep their bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(entries)
    return text.getvalue().encode("utf-8", "surrogateescape")


def manifest_digest(entries: Iterable[Entry]) -> str:
    """The SHA-256 of all of it."""
    return hashlib.sha256(manifest_bytes(entries)).hexdigest()


def write_manifest(folder: Path, entries: Iterable[Entry]) -> None:
    """Keep a division in a run's folder."""
    atomic_write(folder / FILE, manifest_bytes(entries))


def read_manifest(path: Path) -> Manifest:
    """Read a manifest's file."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            header, *rows = csv.reader(file)
        if tuple(header) != COLUMNS:
            raise ValueError("its columns are others")
        return Manifest(path, tuple(Entry(*row) for row in rows))
    except OSError as error:
        raise CapsNetError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError, csv.Error) as error:
        raise CapsNetError(f"{path} is not a run's manifest: {error}.") from error


class Division(NamedTuple):
    """How trained weights' data were divided: by a manifest, or else by a rule, `split` of `load_dataset`."""

    manifest: Manifest | None
    rule: str


def find_division(weights: str | Path, provenance: Mapping[str, Any]) -> Division:
    """Find how the data of a run, or of weights inside its folder, were divided.

    Args:
        weights: the run folder, or a weights folder.
        provenance: what the weights' card tells; from before there were manifests, it has no "division".
    """
    folder = Path(weights)
    for place in (folder, *([folder.parent] if folder.name in WEIGHTS else [])):
        if (place / FILE).is_file():
            return Division(read_manifest(place / FILE), "content")
    return Division(None, provenance.get("division", "order"))


def load_divided(
    name: str,
    division: Division,
    weights: str | Path,
    *,
    data_dir: str | Path | None = None,
    resuming: bool = False,
    **options: Any,
) -> "DataSet":
    """Read your own pictures, or any data set, divided as for training; warn of pictures that have changed since.

    Args:
        name: the data set's name or path, wherever it lies now.
        weights: what a warning calls the weights or the run.
        resuming: refuse changed pictures, with which a training cannot continue as if nothing had happened.
        options: the data set's own, as for training.
    """
    from capsnet.data.registry import is_path, load_dataset

    if not is_path(name):
        return load_dataset(name, data_dir, **options)
    if division.manifest is None:
        return load_dataset(name, data_dir, **{"split": division.rule, **options})
    dataset = load_dataset(name, data_dir, manifest=division.manifest, **options)
    changes = dataset.changes
    if changes is None or not any(changes):
        return dataset
    changed = changes.describe()
    if resuming and (changes.missing or changes.altered):
        raise CapsNetError(
            f"The run at {weights} cannot continue, since its pictures in {name} have changed: {changed}. "
            "Put them back as they were, or start a new run."
        )
    logger.warning(
        "Pictures in %s have changed since '%s' was trained: %s. Only those that are as they were are used.",
        name,
        weights,
        changed,
    )
    return dataset


def _some(files: tuple[str, ...]) -> str:
    return ", ".join(files[:TOLD]) + (", ..." if len(files) > TOLD else "")
