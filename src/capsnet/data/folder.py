"""One's own pictures, read into memory: from a folder, or from a CSV or TSV (`capsnet.data.listing` says which files).

Where the data have no test part, about a fifth of each class is set aside by content (`capsnet.data.content_split`).
Files that cannot be read are told of and left out, unless that leaves a class empty. Pictures are fitted to one size:
`image_size`, else their own when they all share one that networks take, else 64 x 64. They are grey when all of them are.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from capsnet.data.listing import Listing, PictureFile, list_path, printable
from capsnet.data.manifest import Entry, Manifest
from capsnet.data.own import OwnDataSet, Rule, divide, make_own
from capsnet.data.pictures import Header, read_header, read_pixels
from capsnet.data.reading import read_all
from capsnet.errors import CapsNetError

DEFAULT_SIZE = 64
OWN_SIZES = range(20, 257)
MAX_BYTES = 8 << 30
TOLD = 5

logger = logging.getLogger("capsnet.data")


@dataclass
class Pictures:
    """All readable files of a listing: their headers, pixels and digests, and why the others are not among them."""

    files: list[PictureFile]
    headers: list[Header]
    images: UInt8[np.ndarray, "n c h w"]
    digests: list[str]
    problems: dict[str, str]

    def entries(self, listing: Listing) -> list[Entry]:
        """The pictures as a manifest's entries, with the split that the data give, if any."""
        return [
            Entry(file.name, listing.class_names[file.label], file.group, file.part, digest)
            for file, digest in zip(self.files, self.digests, strict=True)
        ]


def load_folder(
    path: Path,
    image_size: int | Sequence[int] | None = None,
    channels: int | None = None,
    group_by: str | None = None,
    split: str = "content",
    split_seed: int = 0,
    manifest: Manifest | None = None,
) -> OwnDataSet:
    """Read all pictures into memory.

    Args:
        image_size: height and width, or one number for both.
        channels: 1 for grey, 3 for colour; as the files are when left out.
        group_by: what pictures must stay together by: a table's column, or a regular expression on their names.
        split: how a test part is set aside where there is none: by "content", or in the "order" that runs without a
            manifest used.
        split_seed: another number sets other pictures aside.
        manifest: a run's division to follow.
    """
    rule = Rule(split, split_seed, manifest)
    listing = list_path(path, group_by)
    added = _keep_known(listing, manifest) if manifest else ()
    listing.require_sound()
    pictures = read_pictures(listing, image_size, channels)
    _tell(path, pictures.problems)
    for note in listing.notes:
        logger.warning("%s", note)
    dataset = load_pictures(listing, pictures, rule)
    if dataset.changes:
        return replace(dataset, changes=dataset.changes._replace(added=added))
    return dataset


def load_pictures(listing: Listing, pictures: Pictures, rule: Rule) -> OwnDataSet:
    """Divide pictures that have been read, and make a data set of them."""
    for complaint in find_empty(listing, pictures):
        raise CapsNetError(complaint)
    entries = pictures.entries(listing)
    divided, changes = divide(entries, listing.class_names, listing.place, rule)
    place = {entry.file: n for n, entry in enumerate(entries)}
    rows = torch.tensor([place[entry.file] for entry in divided], dtype=torch.long)
    return make_own(
        str(listing.place),
        torch.from_numpy(pictures.images)[rows],
        divided,
        listing.class_names,
        changes=changes,
        unreadable=tuple(pictures.problems.items()),
        notes=tuple(listing.notes),
    )


def read_pictures(
    listing: Listing, image_size: int | Sequence[int] | None = None, channels: int | None = None
) -> Pictures:
    """Read a listing's files: first all headers, which decide on the size and the channels, then the pixels."""
    if channels not in (None, 1, 3):
        raise CapsNetError(f"Pictures have 1 channel (grey) or 3 (colour), not {channels}.")
    asked = _parse_size(image_size)
    problems: dict[str, str] = {}
    headers: dict[PictureFile, Header] = {}
    for file, header in read_all(listing.files, lambda f: read_header(f.path), "looking at pictures"):
        if isinstance(header, Header):
            headers[file] = header
        else:
            problems[file.name] = str(header)
    height, width = asked or _choose_size({(h.height, h.width) for h in headers.values()})
    channels = channels or (1 if headers and all(h.grey for h in headers.values()) else 3)
    if len(headers) * channels * height * width > MAX_BYTES:
        raise CapsNetError(
            f"{listing.place} has {len(headers)} pictures, too many for memory at {height}x{width}: "
            "give a smaller image size."
        )
    images = np.empty((len(headers), channels, height, width), dtype=np.uint8)

    def read(file: PictureFile) -> tuple[np.ndarray, str]:
        with file.path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        return read_pixels(file.path, channels, (height, width)), digest

    kept: list[PictureFile] = []
    digests: list[str] = []
    for file, result in read_all(list(headers), read, "reading pictures", lambda f: headers[f].memory):
        if isinstance(result, CapsNetError):
            problems[file.name] = str(result)
        else:
            images[len(kept)], digest = result
            kept.append(file)
            digests.append(digest)
    return Pictures(kept, [headers[file] for file in kept], images[: len(kept)], digests, problems)


def _keep_known(listing: Listing, manifest: Manifest) -> tuple[str, ...]:
    """Drop the files and classes that a run did not have, and with them whatever is wrong there; return those files."""
    known = {entry.file for entry in manifest.entries}
    names = {entry.label for entry in manifest.entries}
    old = listing.class_names
    listing.class_names = [name for name in old if name in names]
    number = {name: n for n, name in enumerate(listing.class_names)}
    added = tuple(file.name for file in listing.files if file.name not in known)
    listing.files = [
        file._replace(label=number[old[file.label]])
        for file in listing.files
        if file.name in known and old[file.label] in number
    ]
    listing.problems, listing.notes = [], []
    return added


def _parse_size(asked: int | Sequence[int] | None) -> tuple[int, int] | None:
    if asked is None:
        return None
    sides = (asked, asked) if isinstance(asked, int) else tuple(asked)
    if len(sides) != 2 or not all(isinstance(side, int) and 1 <= side <= 4096 for side in sides):
        raise CapsNetError(f"An image size is one number or two, of 1 to 4096 pixels, not {asked}.")
    return sides[0], sides[1]


def _choose_size(seen: set[tuple[int, int]]) -> tuple[int, int]:
    only = next(iter(seen)) if len(seen) == 1 else (0, 0)
    return only if all(side in OWN_SIZES for side in only) else (DEFAULT_SIZE, DEFAULT_SIZE)


def _tell(path: Path, problems: dict[str, str]) -> None:
    if problems:
        more = f"\n  and {len(problems) - TOLD} more" if len(problems) > TOLD else ""
        some = "".join(f"\n  {why}" for why in list(problems.values())[:TOLD])
        logger.warning("%s: %d files cannot be read and are left out:%s%s", path, len(problems), some, more)


def find_empty(listing: Listing, pictures: Pictures) -> list[str]:
    """The classes of which no picture in a part can be read."""
    readable = {(file.part, file.label) for file in pictures.files}
    listed = {(file.part, file.label) for file in listing.files}
    listed |= {
        ("", n) for n in range(len(listing.class_names)) if not any((p, n) in listed for p in ("", "train"))
    }
    complaints = []
    for part, label in sorted(listed - readable):
        broken = sum(file.part == part and file.label == label for file in listing.files)
        where = f"class '{printable(listing.class_names[label])}' of {listing.place}" + (
            f" ({part})" if part else ""
        )
        why = f"none of its {broken} pictures can be read" if broken else "it has no pictures"
        complaints.append(f"The {where} is empty: {why}; add some, or take the class away.")
    return complaints
