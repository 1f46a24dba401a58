"""How every figure is made: the same colours, both formats, the numbers beside it.

Colours are Okabe and Ito's (2008), which people with any colour vision tell apart; maps are viridis, or PuOr around zero.
A file depends on its content alone, not on the day.
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
    """An empty figure of so many inches. No window system and no global state is touched."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise CapsNetError("Figures need matplotlib: pip install 'capsnet[plots]'.") from None
    matplotlib.rcParams.update(STYLE)
    return Figure(figsize=(width, height), layout="constrained")


def show_picture(axes: "Axes", picture: Any) -> None:
    """A picture (C, H, W): one channel as ink on white, two (stereo) side by side, three in colour."""
    import numpy as np

    array = np.asarray(picture, dtype=np.float32)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color("#CCCCCC")
    if array.shape[0] == 3:
        axes.imshow(np.clip(array.transpose(1, 2, 0), 0, 1), interpolation="nearest")
        return
    flat = np.concatenate(list(array), axis=1)
    limits = (0.0, 1.0) if flat.min() >= 0 and flat.max() <= 1 else (float(flat.min()), float(flat.max()))
    axes.imshow(flat, cmap="gray_r", vmin=limits[0], vmax=limits[1], interpolation="nearest")


def show_mosaic(
    axes: "Axes", rows: Sequence[Sequence[Any]], labels: Sequence[str], titles: Sequence[str] = ()
) -> None:
    """Rows of pictures as one image, labelled at the left and at the top: hundreds of axes would take many seconds."""
    import numpy as np

    lines = []
    for row in rows:
        cells = []
        for picture in row:
            array = np.asarray(picture, dtype=np.float32)
            # Colour keeps its channels; everything else is ink on white, stereo pairs side by side.
            ink = 1 - np.concatenate(list(array), axis=1) if array.shape[0] != 3 else None
            colour = array.transpose(1, 2, 0) if ink is None else np.repeat(ink[..., None], 3, axis=2)
            framed = np.pad(np.clip(colour, 0, 1), ((1, 1), (1, 1), (0, 0)), constant_values=0.8)
            cells.append(np.pad(framed, ((1, 1), (1, 1), (0, 0)), constant_values=1.0))
        lines.append(np.concatenate(cells, axis=1))
    height, width = cells[0].shape[:2]
    axes.imshow(np.concatenate(lines, axis=0), interpolation="nearest")
    axes.set_yticks([height * (n + 0.5) - 0.5 for n in range(len(rows))], labels)
    axes.set_xticks([width * (n + 0.5) - 0.5 for n in range(len(titles))], titles)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)


def save_figure(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Writes NAME.png and NAME.svg."""
    written = []
    for kind in ("png", "svg"):
        path = folder / f"{name}.{kind}"
        # Neither format may name the day: the same numbers must give the same file.
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        with replacing(path) as temporary:
            # Tight: a label beside a picture of fixed proportions may reach beyond the figure.
            figure.savefig(temporary, format=kind, dpi=DPI, metadata=metadata, bbox_inches="tight")
        written.append(path)
    return written


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A row each, columns named after the first's keys."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic_write(path, text.getvalue().encode())
    return path
