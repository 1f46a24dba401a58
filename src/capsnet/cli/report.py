"""`capsnet report`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe, Names
from capsnet.errors import CapsNetError

if TYPE_CHECKING:
    from capsnet.report.page import Report


def report(
    runs: Names = (),
    /,
    *,
    dataset: Maybe[str] = None,
    data_dir: Maybe[Path] = None,
    out: Path = Path("report"),
    json: Flag = False,
) -> None:
    """Write a page on your own runs: curves, mistakes, calibration.

    One self-contained HTML file (and Markdown beside it). Several runs are also compared image by image.
    The paper's tables and figures are `capsnet reproduce`.

    Args:
        runs: Run folders, weights folders or bundled names such as efficient_capsnet.mnist.
        dataset: The data to test on; by default what each run was trained on.
        data_dir: Where data sets are looked for first.
        out: The folder to write index.html, report.md and figures/ into.
        json: Print one JSON document.
    """
    if not runs:
        raise CapsNetError(
            "Name the runs to report on: `capsnet report runs/NAME`. The paper's tables and figures are `capsnet reproduce`."
        )
    from capsnet.analysis.plotting import new_figure
    from capsnet.report.own import build_own_report

    new_figure(1, 1)  # report a missing matplotlib before anything is computed
    began = time.monotonic()
    made = build_own_report(out, runs, dataset=dataset, data_dir=data_dir, say=say)
    tell(made, out, time.monotonic() - began, json=json)


def say(text: str) -> None:
    """Tell what is being done."""
    console.errors.print(text, style="dim", markup=False, highlight=False)


def tell(made: "Report", out: Path, seconds: float, *, json: bool) -> None:
    """Say what was written where."""
    told = {
        "html": str(out / "index.html"),
        "markdown": str(out / "report.md"),
        "tables": [table.key for table in made.tables],
        "figures": [str(picture.file) for picture in made.pictures],
        "seconds": round(seconds, 1),
    }
    if json:
        console.print_json(told)
        return
    console.out.print(
        f"{told['html']}: {len(made.tables)} tables, {len(made.pictures)} figures in {told['seconds']} s",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
