"""Pictures listed in a CSV or TSV: a column for the file, one for its label and, where wanted, for its split and its group.

Files are named from the table's own folder. The first row names the columns; commas, semicolons and tabs separate them.
No torch.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

from capsnet.data.listing import PARTS, Listing, PictureFile, group_files
from capsnet.errors import CapsNetError

COLUMNS = {
    "file": ("file", "filename", "file_name", "filepath", "path", "image", "picture"),
    "label": ("label", "class", "category", "target"),
    "split": ("split", "part", "subset", "set"),
    "group": ("group",),
}
TOLD = 3


def list_table(path: Path, group_by: str | None = None) -> Listing:
    """List the rows; `group_by` is a column, or a pattern on file names."""
    rows = _read_rows(path)
    header, rows = rows[0][1], rows[1:]
    columns = {key: _find_column(header, names) for key, names in COLUMNS.items()}
    if group_by in header:
        columns["group"] = header.index(group_by)
    for key in ("file", "label"):
        if columns[key] is None:
            raise CapsNetError(
                f"{path} has no column for the {key}: name one of its columns {' or '.join(COLUMNS[key])}; "
                f"it has {', '.join(header)}."
            )
    listing = Listing(
        path, f"a table of {', '.join(key for key, place in columns.items() if place is not None)}"
    )
    taken: dict[str, tuple[int, list[str]]] = {}
    entries: list[list[str]] = []
    for line, row in rows:
        file, label, split, group = (row[c].strip() if c is not None else "" for c in columns.values())
        if not file or not label:
            listing.problems.append(
                f"Line {line} of {path} has no {'label' if file else 'file'}: add it, or take the line away."
            )
        elif split and split.lower() not in PARTS:
            listing.problems.append(
                f"Line {line} of {path} has the split '{split}', which is none of {', '.join(PARTS)}."
            )
        elif file in taken:
            _list_again(listing, (line, [file, label, split, group]), taken[file])
        else:
            entry = [file, label, split, group]
            taken[file] = (line, entry)
            entries.append(entry)
    _fill(listing, entries)
    if group_by is not None and group_by not in header:
        listing.files = group_files(listing.files, group_by, str(path))
    return listing


def _fill(listing: Listing, entries: list[list[str]]) -> None:
    """Number the classes, complete the parts, and check what only all rows together can show."""
    path = listing.place
    parts = {PARTS[split.lower()] if split else "" for _, _, split, _ in entries}
    if "" in parts and parts & {"train", "test"}:
        bare = next(file for file, _, split, _ in entries if not split)
        listing.problems.append(
            f"{path} gives no split for {bare}, though for others: fill in the column, or empty it."
        )
    names = {label for _, label, split, _ in entries if PARTS.get(split.lower(), "") in ("train", "")}
    listing.class_names = sorted(names)
    if len(names) < 2:
        listing.problems.append(
            f"{path} needs training pictures of at least two classes; it has {len(names)}."
        )
    for label in sorted({label for _, label, _, _ in entries} - names):
        listing.problems.append(
            f"{path} has the class '{label}' only outside the training pictures: add some to them, or take it away."
        )
    number = {name: n for n, name in enumerate(listing.class_names)}
    for file, label, split, group in entries:
        if label in number:
            part = PARTS[split.lower()] if split else ""
            part = "" if part == "train" and "test" not in parts else part
            listing.files.append(PictureFile(path.parent / file, file, number[label], part, group))


def _list_again(listing: Listing, again: tuple[int, list[str]], first: tuple[int, list[str]]) -> None:
    """A file listed twice: harmless when both lines say the same, else one of them is wrong."""
    where = f"Lines {first[0]} and {again[0]} of {listing.place} list the same file, {again[1][0]}"
    if again[1] == first[1]:
        listing.notes.append(f"{where}; it is taken once.")
    else:
        listing.problems.append(f"{where}, with different columns: keep the right one.")


def _read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows with their line numbers, the header first; all are as long as it."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            separator = max("\t;,", key=first.count) if path.suffix.lower() == ".csv" else "\t"
            reader = csv.reader(file, delimiter=separator)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except OSError as error:
        raise CapsNetError(f"{path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise CapsNetError(f"{path} is not a table in UTF-8: {error}; save it as CSV again.") from error
    if len(rows) < 2:
        raise CapsNetError(
            f"{path} has no rows: it needs one that names its columns, and one for each picture."
        )
    header = [cell.strip() for cell in rows[0][1]]
    for line, row in rows:
        if len(row) != len(header):
            raise CapsNetError(
                f"Line {line} of {path} has {len(row)} cells, but there are {len(header)} columns: "
                "put cells that contain the separator into quotes."
            )
    return [(1, header), *rows[1:]]


def _find_column(header: Sequence[str], names: Sequence[str]) -> int | None:
    lower = [cell.lower() for cell in header]
    return next((lower.index(name) for name in names if name in lower), None)
