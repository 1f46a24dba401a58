"""`capsnet data check`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from tyro.conf import Positional

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe, Pairs, parse_pairs

if TYPE_CHECKING:
    from capsnet.data.check import Findings

ROWS = 40


def check(
    data: Positional[str],
    /,
    *,
    image_size: Maybe[int] = None,
    group_by: Maybe[str] = None,
    data_options: Pairs = (),
    seed: int = 0,
    data_dir: Maybe[Path] = None,
    json: Flag = False,
) -> None:
    """Look at data before training: classes, sizes, what cannot be read, duplicates, groups, and what training would do.

    The exit code is 1 when something is wrong.

    Args:
        data: A folder with one sub-folder per class, or with train/, val/ and test/; a CSV or TSV; an .npz; a data set's name.
        image_size: The side, in pixels, that training brings the pictures to.
        group_by: What pictures must stay together by: a column of the CSV, or a regular expression found in
            each file's path below PATH.
        data_options: The data set's own, such as split_seed=1.
        seed: Of the training, which draws the validation pictures.
        data_dir: Where data sets are looked for first.
        json: Print one JSON document.
    """
    from capsnet.data.check import check_data

    options = parse_pairs(data_options, "--data-options")
    options |= {k: v for k, v in (("image_size", image_size), ("group_by", group_by)) if v is not None}
    findings = check_data(data, data_dir, seed=seed, **options)
    if json:
        console.print_json(findings.to_dict())
    else:
        _show(findings)
    if findings.problems:
        sys.exit(1)


def _show(findings: "Findings") -> None:
    told = findings.to_dict()
    sizes, channels = told["sizes"], ", ".join(f"{n:,} {name}" for name, n in told["channels"].items())
    _say(
        f"{told['data']}: {told['layout']}, {told['images']:,} pictures"
        + (f", {channels}" if channels else "")
    )
    if sizes["different"]:
        smallest, largest = ("x".join(map(str, sizes[key])) for key in ("smallest", "largest"))
        _say(
            f"Sizes: {smallest}"
            if sizes["different"] == 1
            else f"Sizes: {sizes['different']}, {smallest} to {largest}"
        )
    if told["groups"]:
        _say(f"Groups: {told['groups']}")
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("class")
    for split in told["splits"]:
        table.add_column(split, justify="right")
    for row in told["classes"][:ROWS]:
        table.add_row(row["name"], *(f"{row[split]:,}" for split in told["splits"]))
    if len(told["classes"]) > ROWS:
        table.add_row(f"and {len(told['classes']) - ROWS} more")
    console.out.print(table)
    for note in told["notes"]:
        _say(f"Note: {note}")
    for problem in told["problems"]:
        _say(f"Wrong: {problem}", style="red")
    _say(told["plan"])
    wrong = len(told["problems"])
    _say(f"Problems: {wrong}." if wrong else "Nothing is wrong.", style="bold")


def _say(text: str, style: str | None = None) -> None:
    console.out.print(text, style=style, highlight=False, soft_wrap=True)
