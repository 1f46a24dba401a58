"""`capsnet reproduce`."""

import time
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from capsnet.cli.options import Flag, Maybe
from capsnet.cli.report import say, tell


def reproduce(
    *,
    results: Maybe[Path] = None,
    weights: Annotated[tuple[str, ...], arg(help_behavior_hint="")] = (),
    out: Path = Path("reproduced"),
    data_dir: Maybe[Path] = None,
    json: Flag = False,
) -> None:
    """Write the paper's tables and figures beside ours, as one page.

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

    new_figure(1, 1)  # report a missing matplotlib before anything is computed
    began = time.monotonic()
    made = build_report(out, results=results, weights=weights or None, data_dir=data_dir, say=say)
    tell(made, out, time.monotonic() - began, json=json)
