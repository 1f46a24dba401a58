"""`capsnet report`."""

import time
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe


def report(
    *,
    results: Maybe[Path] = None,
    weights: Annotated[tuple[str, ...], arg(help_behavior_hint="")] = (),
    out: Path = Path("report"),
    data_dir: Maybe[Path] = None,
    json: Flag = False,
) -> None:
    """Write the paper's tables and figures, reported beside ours, as one page.

    Nothing is trained: cells without a result say the command that fills them.

    Args:
        results: The folder of results; ./results, else the package's copy, when left out.
        weights: Networks for the figures, the first looked at closely; the bundled ones when left out.
        out: The folder to write into: index.html, report.md, figures/.
        data_dir: Where data sets are looked for first.
        json: Print one JSON document.
    """
    from capsnet.analysis.plotting import new_figure
    from capsnet.report.build import build_report

    new_figure(1, 1)  # matplotlib is missed before anything is computed
    began = time.monotonic()

    def say(text: str) -> None:
        console.errors.print(text, style="dim", markup=False, highlight=False)

    made = build_report(out, results=results, weights=weights or None, data_dir=data_dir, say=say)
    told = {
        "html": str(out / "index.html"),
        "markdown": str(out / "report.md"),
        "tables": [table.key for table in made.tables],
        "figures": [str(picture.file) for picture in made.pictures],
        "seconds": round(time.monotonic() - began, 1),
    }
    if json:
        console.print_json(told)
    else:
        console.out.print(
            f"{told['html']}: {len(made.tables)} tables, {len(made.pictures)} figures in {told['seconds']} s",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
