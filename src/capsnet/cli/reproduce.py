"""`capsnet reproduce`."""

import time
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe


def reproduce(
    *,
    results: Maybe[Path] = None,
    weights: Annotated[tuple[str, ...], arg(help_behavior_hint="")] = (),
    out: Path = Path("reproduced"),
    data_dir: Maybe[Path] = None,
    json: Flag = False,
) -> None:
    """Write the paper's tables and figures, reported beside ours, as one page.

    Nothing is trained: a cell without a result shows the command that fills it. `capsnet report` is for your own runs.

    Args:
        results: The folder of results; by default ./results, else the copy in the package.
        weights: Networks for the figures; the first is looked at closely. The bundled ones by default.
        out: The folder to write index.html, report.md and figures/ into.
        data_dir: Where data sets are looked for first.
        json: Print one JSON document.
    """
    from capsnet.analysis.plotting import new_figure
    from capsnet.report.reproduce import build_report

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
