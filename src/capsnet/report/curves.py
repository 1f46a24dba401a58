"""Training curves of every seed, from the runs' own records."""

from typing import TYPE_CHECKING

from capsnet.analysis.plotting import CYCLE, new_figure
from capsnet.report.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_curves(records: list[Record]) -> "Figure":
    """Loss and validation error after each epoch: a line a seed, a colour a model and recipe."""
    figure = new_figure(7.6, 3.2)
    from matplotlib.ticker import LogLocator, NullFormatter

    panels = figure.subplots(1, 2)
    colours: dict[str, str] = {}
    for record in records:
        name = f"{record['model']}, {record['recipe']}"
        label = name if name not in colours else None
        colour = colours.setdefault(name, CYCLE[len(colours) % len(CYCLE)])
        epochs = [row["epoch"] for row in record["curve"]]
        for axes, key in zip(panels, ("loss", "validation_error_percent"), strict=True):
            values = [row[key] for row in record["curve"]]
            if all(v is not None for v in values):
                axes.plot(epochs, values, "o-", ms=3, lw=1.2, color=colour, alpha=0.8, label=label)
    for axes, title in zip(panels, ("training loss", "validation error, %"), strict=True):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("epoch")
        axes.set_title(title)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(which="both", axis="y", alpha=0.25)
    panels[0].legend(fontsize=8)
    return figure
