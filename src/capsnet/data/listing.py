"""Which picture files a path stands for, before any is opened: a folder's classes and parts, or a CSV's or TSV's rows.

A listing never stops at the first fault: it collects in `problems` what must be mended before training, and in `notes`
what is passed over, so that `capsnet data check` can tell all of it at once. No torch.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from capsnet.errors import CapsNetError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
PARTS = {
    "train": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
}


class PictureFile(NamedTuple):
    """A file, what it shows, and where it must go.

    Attributes:
        name: the path from the data's own folder, with slashes on every system.
        label: the number of its class.
        part: "train", "validation" or "test"; empty where the data leave it open.
        group: what it must stay together with; empty when it is on its own.
    """

    path: Path
    name: str
    label: int
    part: str = ""
    group: str = ""


@dataclass
class Listing:
    """What a path stands for."""

    place: Path
    layout: str
    class_names: list[str] = field(default_factory=list)
    files: list[PictureFile] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def require_sound(self) -> None:
        """Refuse to train on what has problems."""
        if self.problems:
            more = f" (`capsnet data check {self.place}` tells of {len(self.problems) - 1} more.)"
            raise CapsNetError(self.problems[0] + (more if len(self.problems) > 1 else ""))


def list_path(path: Path, group_by: str | None = None) -> Listing:
    """List a folder, or a table of files and labels; `group_by` is a table's column or a pattern on file names."""
    if path.suffix.lower() in (".csv", ".tsv"):
        from capsnet.data.table import list_table

        return list_table(path, group_by)
    listing = list_folder(path)
    if group_by is not None:
        listing.files = group_files(listing.files, group_by, str(path))
    return listing


def list_folder(folder: Path) -> Listing:
    """List one sub-folder per class, or `train` with `test`, `val` or both, and the classes in each."""
    parts = _find_parts(folder)
    if not parts:
        listing = Listing(folder, "one folder per class")
        _list_part(listing, folder, "")
    else:
        listing = Listing(folder, " + ".join(f"{place.name}/" for place in parts.values()))
        for part, place in parts.items():
            # Alone, `train` is all there is, and a test set is taken from it.
            _list_part(listing, place, part if part != "train" or "test" in parts else "")
        others = [name for name in _folders(folder) if folder / name not in parts.values()]
        if others:
            listing.notes.append(
                f"{folder / others[0]} lies beside {parts['train'].name}/ and is passed over."
            )
    return listing


def _find_parts(folder: Path) -> dict[str, Path]:
    """The parts of a divided folder, the training part first; nothing for plain classes, one of which may be called "train"."""
    parts: dict[str, Path] = {}
    names = _folders(folder)
    for name in sorted(names, key=lambda n: list(PARTS).index(n.lower()) if n.lower() in PARTS else -1):
        part = PARTS.get(name.lower())
        if part is None:
            continue
        if part in parts:
            raise CapsNetError(
                f"{folder} has both {parts[part].name}/ and {name}/: put their pictures into one of them."
            )
        parts[part] = folder / name
    divided = "train" in parts and bool(_folders(parts["train"])) and (len(parts) > 1 or len(names) == 1)
    return parts if divided else {}


def _list_part(listing: Listing, place: Path, part: str) -> None:
    """Add the classes and files of one part; the first part says which classes there are."""
    names = _folders(place)
    first = not listing.class_names
    if first:
        listing.class_names = names
    if first and len(names) < 2:
        listing.problems.append(
            f"{place} needs a sub-folder of pictures for each class, at least two; it has {len(names)}."
            + _advice(place)
        )
    for name in names:
        if name not in listing.class_names:
            listing.problems.append(
                f"{place / name} is a class that the training pictures don't have: add some there, or take it away."
            )
    passed: Counter[str] = Counter()
    beside = sum(_is_picture(entry.name) for entry in os.scandir(place) if entry.is_file())
    if beside:
        listing.notes.append(
            f"{place} has {beside} pictures outside its class folders, which are passed over."
        )
    for label, name in enumerate(listing.class_names):
        folder = place / name
        if name not in names:
            listing.notes.append(f"{place} has no pictures of class '{name}'.")
            continue
        if place.resolve().is_relative_to(folder.resolve()):
            listing.problems.append(
                f"{folder} is a link to a folder that it lies in; it cannot be a class: take it away."
            )
            continue
        found = [
            PictureFile(path, _relative(path, listing.place), label, part) for path in _walk(folder, passed)
        ]
        listing.files += found
        if not found:
            listing.problems.append(
                f"The class folder {folder} is empty: it has no pictures; put some there, or take it away."
            )
    for suffix, count in passed.most_common():
        listing.notes.append(
            f"{count} files ending in '{suffix}' under {place} are passed over.{_convert(suffix)}"
        )


def group_files(files: list[PictureFile], pattern: str, source: str) -> list[PictureFile]:
    """Give each file the group that a regular expression finds in its name: its bracketed parts, or all that it matches."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise CapsNetError(f"--group-by '{pattern}' is not a regular expression: {error}.") from None
    grouped = []
    for file in files:
        found = expression.search(file.name)
        if found is None:
            raise CapsNetError(
                f"--group-by '{pattern}' finds nothing in the name '{file.name}' of {source}: "
                "give a regular expression that matches every file's name."
            )
        grouped.append(file._replace(group="/".join(g or "" for g in found.groups()) or found.group()))
    return grouped


def printable(name: str) -> str:
    """A name that JSON and terminals take; bytes of a file name that are no text become question marks."""
    return "".join(c if c.isprintable() else "?" for c in name.encode("utf-8", "replace").decode("utf-8"))


def find_pictures(folder: Path) -> list[Path]:
    """All picture files under a folder, sorted."""
    return list(_walk(folder, Counter()))


def _walk(folder: Path, passed: Counter[str]) -> Iterator[Path]:
    """All pictures under a folder, sorted; links to folders inside it are not followed, so none can loop."""
    for where, inner, names in os.walk(folder):
        inner.sort()
        for name in sorted(names):
            if name.startswith("."):
                continue
            if _is_picture(name):
                yield Path(where, name)
            else:
                passed[Path(name).suffix.lower()] += 1


def _folders(place: Path) -> list[str]:
    """The sub-folders' names, sorted; hidden ones are not classes."""
    try:
        names = sorted(entry.name for entry in os.scandir(place) if entry.is_dir())
    except OSError as error:
        raise CapsNetError(f"{place} cannot be read: {error.strerror}.") from error
    return [name for name in names if not name.startswith((".", "__"))]


def _is_picture(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def _relative(path: Path, place: Path) -> str:
    return path.relative_to(place).as_posix()


def _advice(place: Path) -> str:
    """What else the folder might have been meant as."""
    tables = sorted(p.name for p in place.iterdir() if p.suffix.lower() in (".csv", ".tsv", ".npz"))
    return f" To train by a table or arrays, name that file: {place / tables[0]}." if tables else ""


def _convert(suffix: str) -> str:
    pictures = (
        ".heic",
        ".heif",
        ".avif",
        ".svg",
        ".pdf",
        ".psd",
        ".cr2",
        ".cr3",
        ".nef",
        ".arw",
        ".dng",
        ".jxl",
        ".jp2",
    )
    return " Convert them to JPEG or PNG to use them." if suffix in pictures else ""
