"""The paper's figures 2 to 4, drawn from a network's real shapes: its layers from image to picture, and its routing.

Letters: I primary capsules, K their size, J class capsules, D their size.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from capsnet.analysis.plotting import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, new_figure
from capsnet.models.base import CapsuleModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Stage(NamedTuple):
    """One box: what it does, what comes out, its colour."""

    name: str
    shape: tuple[int, ...]
    colour: str


@torch.inference_mode()
def stages(model: CapsuleModel) -> list[Stage]:
    """What a blank image becomes on its way through Efficient-CapsNet, as hooks see it."""
    encoder: Any = model.encoder
    found = [Stage("image", tuple(model.image_shape), GREY)]

    def record(name: str, colour: str) -> Any:
        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            tensor = output if isinstance(output, torch.Tensor) else output[0]
            found.append(Stage(name, tuple(tensor.shape[1:]), colour))

        return hook

    hooks = []
    for block in encoder.blocks:
        conv = block.conv
        name = f"conv {conv.kernel_size[0]}×{conv.kernel_size[1]}\nstride {conv.stride[0]}"
        hooks.append(block.register_forward_hook(record(name, BLUE)))
    hooks.append(encoder.primary.register_forward_hook(record("depthwise\nsquash", ORANGE)))
    for layer in encoder.capsules:
        hooks.append(layer.register_forward_hook(record("routing", GREEN)))
    if model.decoder is not None:
        for layer in model.decoder.modules():
            if isinstance(layer, nn.Linear):
                hooks.append(layer.register_forward_hook(record("dense", PURPLE)))
    output = model(torch.zeros(1, *model.image_shape))
    if model.decoder is not None:
        picture = model.reconstruct(output)
        found.append(Stage("picture", tuple(picture.shape[1:]), GREY))
    for hook in hooks:
        hook.remove()
    return found


def draw_architecture(model: CapsuleModel) -> "Figure":
    """Maps as squares of their side, vectors as columns, capsules as combs; the shapes are written above."""
    parts = stages(model)
    figure = new_figure(1.02 * len(parts) + 0.6, 3.1)
    axes = figure.subplots()
    left = 0.0
    for n, part in enumerate(parts):
        width, height = _size(part.shape)
        for offset in range(3 if len(part.shape) == 3 and part.shape[0] > 1 else 1)[::-1]:
            axes.add_patch(_box(left + 0.06 * offset, 0.06 * offset - height / 2, width, height, part.colour))
        if len(part.shape) == 2:
            rows = min(part.shape[0], 16)
            for row in range(1, rows):
                y = -height / 2 + height * row / rows
                axes.plot([left, left + width], [y, y], color="white", lw=0.8)
        middle = left + width / 2
        axes.text(middle, 1.25, "×".join(map(str, part.shape)), ha="center", va="bottom", fontsize=8)
        axes.text(middle, -1.25, part.name, ha="center", va="top", fontsize=8)
        if n + 1 < len(parts):
            arrow = {"arrowstyle": "-|>", "color": "black", "lw": 0.9}
            axes.annotate("", (left + width + 0.62, 0), (left + width + 0.22, 0), arrowprops=arrow)
        left += width + 0.75
    axes.set_xlim(-0.45, left - 0.3)
    axes.set_ylim(-2.0, 1.7)
    axes.set_aspect("equal")
    axes.axis("off")
    counts = [
        sum(p.numel() for p in m.parameters()) if m is not None else 0 for m in (model.encoder, model.decoder)
    ]
    axes.set_title(
        f"{model.architecture.name}: {counts[0]:,} parameters to the class capsules, {counts[1]:,} in the decoder",
        fontsize=9,
    )
    return figure


def _size(shape: tuple[int, ...]) -> tuple[float, float]:
    if len(shape) == 3:
        side = 0.45 + 1.5 * min(shape[1], 48) / 48
        return side, side
    if len(shape) == 2:
        return 0.28 + 0.02 * shape[1], 1.9
    return 0.22, 0.8 + min(shape[0], 1024) / 1024


def _box(x: float, y: float, width: float, height: float, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, facecolor=colour, edgecolor="white", lw=1.2)


def draw_routing(model: CapsuleModel) -> "Figure":
    """The last capsule layer's self-attention routing, step by step, with the shapes of this network."""
    encoder: Any = model.encoder
    layer = encoder.capsules[-1]
    j, i, k, d = layer.weight.shape
    boxes = [
        (0.0, 1.0, f"capsules $u_i$\n{i}×{k}", ORANGE),
        (2.3, 1.0, f"votes $\\hat u_{{ij}} = u_i W_{{ij}}$\n{j}×{i}×{d}\n(eq. 3)", BLUE),
        (
            5.0,
            2.0,
            f"agreement $\\hat u_{{ij}} \\cdot \\sum_k \\hat u_{{kj}} / \\sqrt{{d}}$\n{j}×{i}   (eq. 5)",
            SKY,
        ),
        (8.0, 2.0, f"coupling: softmax over\nclass capsules\n{j}×{i}   (eq. 6)", GREEN),
        (8.0, 0.0, f"log priors $b_{{ij}}$, learned\n{j}×{i}", PURPLE),
        (10.9, 1.0, f"$s_j = \\sum_i (c_{{ij}} + b_{{ij}})\\, \\hat u_{{ij}}$\n{j}×{d}   (eq. 4)", BLUE),
        (13.5, 1.0, f"squash (eq. 2)\nclass capsules\n{j}×{d}", ORANGE),
    ]
    figure = new_figure(11.0, 2.9)
    axes = figure.subplots()
    drawn = []
    for x, y, text, colour in boxes:
        frame = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": colour, "lw": 2}
        drawn.append(axes.text(x, y, text, ha="center", va="center", fontsize=8, bbox=frame))
    for a, b, bend in ((0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 5, 0), (4, 5, 0), (5, 6, 0), (1, 5, 0.42)):
        # An arrow goes from frame to frame; the curved one carries the votes past the coupling.
        arrow = {
            "arrowstyle": "-|>",
            "color": "black",
            "lw": 0.9,
            "patchA": drawn[a].get_bbox_patch(),
            "patchB": drawn[b].get_bbox_patch(),
            "shrinkA": 2,
            "shrinkB": 2,
            "connectionstyle": f"arc3,rad={bend}",
            "linestyle": "--" if bend else "-",
        }
        axes.annotate("", boxes[b][:2], boxes[a][:2], arrowprops=arrow)
    axes.set_xlim(-1.2, 14.9)
    axes.set_ylim(-1.6, 2.9)
    axes.axis("off")
    axes.set_title(
        f"Self-attention routing without iterations: {i} capsules vote for {j}; the {i}×{i} attention of eq. 5 is never built",
        fontsize=9,
    )
    return figure
