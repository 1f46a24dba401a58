"""The measures of a routing in sentences and as a figure; `routing_measures` says what they are."""

from pathlib import Path
from typing import Any

from capsnet.analysis.plotting import BLUE, GREY, new_figure, save_figure
from capsnet.analysis.subject import Subject


def lines(result: dict[str, Any]) -> list[str]:
    """Say it in sentences."""
    told = []
    for name, layer in result["layers"].items():
        dead = (
            f"{layer['dead_inputs']} of {layer['inputs']} inputs" if layer["dead_inputs"] is not None else "-"
        )
        told.append(
            f"{name}: dead {dead}, {layer['dead_parents']} of {layer['parents']} parents; coupling among "
            f"{layer['shared_among']}: entropy {layer['entropy_percent']:.1f} %, diversity {layer['diversity_percent']:.1f} %, "
            f"picture dependence {layer['picture_dependence_percent']:.1f} %, "
            f"deviation over pictures {layer['deviation_over_pictures']:.4f} (mean {layer['mean_coupling']:.4f})"
        )
    for kind, entry in result["errors"].items():
        shown = ", ".join(
            f"{name.removesuffix('_percent').replace('_', ' ')} {value:.2f} %"
            for name, value in entry.items()
            if name != "changed_percent"
        )
        told.append(f"coupling {kind}: {shown}, {entry['changed_percent']:.2f} % of answers changed")
    return told


def draw(subject: Subject, result: dict[str, Any], out: Path) -> list[Path]:
    """Draw the measures of each layer, and the error with each coupling."""
    figure = new_figure(8.0, 3.0)
    left, right = figure.subplots(1, 2)
    kinds = ("entropy", "diversity", "picture dependence")
    width = 0.8 / len(result["layers"])
    for n, (name, layer) in enumerate(result["layers"].items()):
        heights = [layer[f"{kind.replace(' ', '_')}_percent"] for kind in kinds]
        left.bar([k + n * width for k in range(3)], heights, width, label=name)
    left.set_xticks([k + 0.4 - width / 2 for k in range(3)], kinds)
    left.set_ylabel("percent of the most there can be")
    left.set_ylim(0, 100)
    if len(result["layers"]) > 1:
        left.legend()
    names = list(result["errors"])
    key = next(iter(result["errors"]["own"]))
    right.barh(names, [result["errors"][name][key] for name in names], color=[BLUE] + [GREY] * len(names[1:]))
    right.invert_yaxis()
    right.set_xlabel(f"{key.removesuffix('_percent').replace('_', ' ')}, %")
    right.set_title("with the coupling ...", loc="left")
    figure.suptitle(f"{subject.name} on {subject.dataset.name}", fontsize=10)
    return save_figure(figure, out, "routing-measures")
