"""The figures of `capsnet analyze equivariance`: cumulative variance, per class, and the linear read-out."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from capsnet.analysis.plotting import BLUE, CYCLE, GREEN, GREY, ORANGE, PURPLE, SKY, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {
    "x": "Translations on x: [-5, 5] pixels",
    "y": "Translations on y: [-5, 5] pixels",
    "rotation": "Rotations: [-25, 25] degrees",
}


def draw_cumulative(result: dict[str, Any], *others: dict[str, Any]) -> "Figure":
    """Draw the paper's four panels: mean cumulative variance against the number of components; `others` for comparison."""
    figure = new_figure(7.2, 5.4)
    panels = figure.subplots(2, 2, sharex=True, sharey=True).flat
    components = list(range(1, len(result["table"]["x"]["cumulative_percent"]) + 1))
    colours = (BLUE, GREEN, PURPLE, SKY)
    for axes, (name, entry) in zip(panels, result["table"].items(), strict=False):
        for colour, each in zip(colours, (result, *others), strict=False):
            curve = each["table"][name]["cumulative_percent"][: len(components)]
            label = f"{each['model']}, first {curve[0]:.1f} %"
            axes.plot(components[: len(curve)], curve, "o-", color=colour, ms=3, label=label)
        random = entry["random_cumulative_percent"]
        label = f"random vectors, first {random[0]:.1f} %"
        axes.plot(components, random, "o--", color=ORANGE, ms=3, label=label)
        axes.set_title(TITLES[name])
    last = list(figure.axes)[3]
    for colour, (name, entry) in zip(CYCLE, result["table"].items(), strict=False):
        if name != "y":  # as many samples as on x
            label = f"{entry['samples']} samples"
            last.plot(components, entry["random_cumulative_percent"], "o-", color=colour, ms=3, label=label)
    last.set_title("Random vectors")
    for axes in figure.axes:
        axes.set_ylim(0, 108)
        axes.set_xticks(
            [1, 4, 8, 12, 16] if len(components) == 16 else components[:: max(1, len(components) // 6)]
        )
        axes.legend(loc="lower right")
    for axes in figure.axes[2:]:
        axes.set_xlabel("principal components")
    for axes in figure.axes[::2]:
        axes.set_ylabel("variance explained, %")
    return figure


def draw_classes(result: dict[str, Any], class_names: tuple[str, ...]) -> "Figure":
    """Draw the first component's share for each class."""
    figure = new_figure(max(6.0, 0.7 * len(class_names)), 3.2)
    axes = figure.subplots()
    width = 0.8 / len(result["table"])
    for n, (name, entry) in enumerate(result["table"].items()):
        places = [j + (n - 1) * width for j in range(len(class_names))]
        heights = [v if v is not None else 0 for v in entry["by_class_percent"]]
        axes.bar(places, heights, width, color=CYCLE[n], label=name)
    axes.set_xticks(range(len(class_names)), class_names)
    axes.set_xlabel("class")
    axes.set_ylabel("first component, %")
    axes.set_ylim(0, 100)
    axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def draw_linear(result: dict[str, Any]) -> "Figure":
    """Draw R squared of the linear read-out: one bar per transformation, one dot per class."""
    figure = new_figure(5.6, 3.0)
    axes = figure.subplots()
    rows = list(result["linear"].items())
    for n, (_, entry) in enumerate(rows):
        r_squared = entry["r_squared"]
        if r_squared is None:
            axes.text(0.02, n, "too few images", va="center", color=GREY)
            continue
        axes.barh(n, r_squared, color=BLUE, height=0.6)
        dots = [v for v in entry["by_class"] if v is not None]
        axes.plot([max(v, 0) for v in dots], [n] * len(dots), "o", ms=4, mfc="white", mec=ORANGE, mew=1.2)
        axes.text(1.02, n, f"{r_squared:.2f}", va="center")
    axes.set_yticks(
        range(len(rows)), [f"{k} ({e['low']:g} to {e['high']:g} {e['unit']})" for k, e in rows], fontsize=8
    )
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.axvline(1, color=GREY, lw=0.8)
    axes.set_xlabel("R squared on images not fitted to\n(dots: classes; below 0 drawn at 0)")
    return figure


def draw_all(result: dict[str, Any], class_names: tuple[str, ...], out: Path) -> list[Path]:
    """Write every figure of a result."""
    written = save_figure(draw_cumulative(result), out, "equivariance")
    written += save_figure(draw_classes(result, class_names), out, "equivariance-classes")
    return written + save_figure(draw_linear(result), out, "equivariance-linear")
