"""A confusion matrix as a figure: each row is a class of the test images, shaded by the share of it that each answer gets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxtyping import Int
from torch import Tensor

from capsnet.analysis.plotting import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_WRITTEN = 20  # classes up to which counts are written into the cells
MOST_NAMED = 60
LONGEST = 24  # characters of a class name


def draw_confusion(counts: Int[Tensor, "j j"], names: Sequence[str]) -> "Figure":
    """Rows are the classes of the images, columns the predictions."""
    j = len(names)
    side = min(12.0, 2.2 + (0.42 if j <= MOST_WRITTEN else 0.16) * j)
    figure = new_figure(side, side)
    axes = figure.subplots()
    shares = counts.double() / counts.sum(dim=1, keepdim=True).clamp(min=1)
    axes.imshow(shares.numpy(), cmap="Blues", vmin=0, vmax=1)
    if j <= MOST_WRITTEN:
        for row, column in counts.nonzero().tolist():
            dark = float(shares[row, column]) > 0.5
            text = f"{int(counts[row, column])}"
            axes.text(
                column, row, text, ha="center", va="center", fontsize=7, color="white" if dark else "black"
            )
    if j <= MOST_NAMED:
        short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
        straight = max(map(len, short)) <= 2
        axes.set_xticks(range(j), short, rotation=0 if straight else 90)
        axes.set_yticks(range(j), short)
    else:
        axes.set_xticks([])
        axes.set_yticks([])
    axes.tick_params(length=0)
    axes.set_xlabel("predicted")
    axes.set_ylabel("class of the image")
    axes.spines[:].set_visible(False)
    return figure
