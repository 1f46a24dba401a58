"""How every figure is made: the same colours, both formats, the numbers beside it.

Colours are those of Okabe and Ito (2008), which people with any colour vision can tell apart; maps use viridis, or PuOr
around zero. A file depends on its content alone, not on the date.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capsnet.errors import CapsNetError
from capsnet.files import atomic_write, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, YELLOW, GREY = "#56B4E9", "#CC79A7", "#F0E442", "#B0B0B0"
CYCLE = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, "#000000", GREY)
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "image.cmap": "viridis",
    "svg.hashsalt": "capsnet",
    "legend.frameon": False,
}
DPI = 150


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure, sized in inches. It uses no window system."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise CapsNetError("Figures need matplotlib: pip install 'capsnet[plots]'.") from None
    matplotlib.rcParams.update(STYLE)
    return Figure(figsize=(width, height), layout="constrained")


def show_picture(axes: "Axes", picture: Any) -> None:
    """Draw a picture (3, H, W) of colours from 0 to 1, which `Subject.shown` makes."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color("#CCCCCC")
    axes.imshow(picture.transpose(1, 2, 0), interpolation="nearest")


def show_mosaic(
    axes: "Axes", rows: Sequence[Sequence[Any]], labels: Sequence[str], titles: Sequence[str] = ()
) -> None:
    """Draw rows of pictures (3, H, W) as one labelled image: hundreds of axes would take many seconds."""
    import numpy as np

    lines = []
    for row in rows:
        cells = []
        for picture in row:
            colour = picture.transpose(1, 2, 0)
            framed = np.pad(colour, ((1, 1), (1, 1), (0, 0)), constant_values=0.8)
            cells.append(np.pad(framed, ((1, 1), (1, 1), (0, 0)), constant_values=1.0))
        lines.append(np.concatenate(cells, axis=1))
    height, width = cells[0].shape[:2]
    axes.imshow(np.concatenate(lines, axis=0), interpolation="nearest")
    axes.set_yticks([height * (n + 0.5) - 0.5 for n in range(len(rows))], labels)
    axes.set_xticks([width * (n + 0.5) - 0.5 for n in range(len(titles))], titles)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)


def save_figure(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Write NAME.png and NAME.svg."""
    written = []
    for kind in ("png", "svg"):
        path = folder / f"{name}.{kind}"
        # Neither format may hold the date: the same numbers must give the same file.
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        with replacing(path) as temporary:
            # Tight: a label beside a picture of fixed proportions may reach beyond the figure.
            figure.savefig(temporary, format=kind, dpi=DPI, metadata=metadata, bbox_inches="tight")
        written.append(path)
    return written


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write one line per row; the columns are named after the first row's keys."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic_write(path, text.getvalue().encode())
    return path
