"""`capsnet compare`."""

from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from tyro.conf import Positional

from capsnet.cli import console
from capsnet.cli.options import Flag


def compare(first: Positional[Path], second: Positional[Path], /, *, json: Flag = False) -> None:
    """Compare two systems, paired over seeds and image by image.

    Args:
        first: A run folder, or the folder of `capsnet trials`.
        second: Another, of the same data set.
        json: Print one JSON document.
    """
    from capsnet.evaluate.compare import compare as run

    result = run(first, second)
    if json:
        console.print_json(result)
        return
    for key, error in result["errors"].items():
        show_error(key, error, result)
    show_images(result["mcnemar"])


def show_error(key: str, error: dict[str, Any], result: dict[str, Any]) -> None:
    """The two systems' means and their difference."""
    name = key.removesuffix("_percent").replace("_", " ")
    table = Table(box=box.SIMPLE, pad_edge=False, title=f"{result['dataset']}: {name}, %")
    for heading in ("", "mean", "deviation", "min", "max", "95 % interval"):
        table.add_column(heading, justify="left" if not heading else "right", overflow="fold")
    rows = ((result["first"], "first"), (result["second"], "second"), ("first - second", "difference"))
    for label, part in rows:
        s = error[part]
        spread = f"{s['deviation']:.3f}" if s["deviation"] is not None else ""
        interval = "{:+.3f} to {:+.3f}".format(*s["interval"]) if s["interval"] else ""
        table.add_row(label, f"{s['mean']:.3f}", spread, f"{s['min']:.2f}", f"{s['max']:.2f}", interval)
    console.out.print(table)
    if error["p"] is not None:
        console.out.print(
            f"{len(result['seeds'])} paired seeds, signs flipped: p = {error['p']:.4f}", highlight=False
        )


def show_images(rows: list[dict[str, Any]]) -> None:
    """McNemar's counts, a row a seed."""
    table = Table(box=box.SIMPLE, pad_edge=False, title="Images wrong, and McNemar's exact test")
    for heading in ("seed", "both", "only first", "only second", "p"):
        table.add_column(heading, justify="right")
    for row in rows:
        counts = (row["both_wrong"], row["only_first_wrong"], row["only_second_wrong"])
        table.add_row(str(row["seed"]), *map(str, counts), f"{row['p']:.4f}")
    console.out.print(table)
