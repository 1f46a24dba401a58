"""Where the primary capsules' votes go: coupling for single images, its mean for each class, and the learned log priors.

The coupling of each primary capsule sums to one over the class capsules. The log priors are added to it (Efficient-CapsNet
eq. 4 and after), so the two are drawn side by side.

Letters: N images, J classes, I primary capsules.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from capsnet.analysis.plotting import new_figure, save_figure, show_picture, write_csv
from capsnet.analysis.subject import Subject
from capsnet.errors import CapsNetError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def coupling_of(subject: Subject, images: Tensor) -> Tensor:
    """Return the coupling (N, J, I); refuse a network that does not route."""
    coupling = subject.run(images, coupling=True).coupling
    if coupling is None:
        raise CapsNetError(f"'{subject.name}' does not route, so there is no coupling to show.")
    return coupling


def log_priors(subject: Subject) -> Tensor | None:
    """Return the log priors (J, I) of the last capsule layer, if its routing learns them."""
    found = [p for name, p in subject.model.named_parameters() if name.endswith("log_prior")]
    return found[-1].detach().cpu() if found else None


def mean_coupling(subject: Subject, indices: Tensor) -> Tensor:
    """Return, for the images of each class, the mean coupling to every class capsule: (J, J, I)."""
    classes = subject.dataset.num_classes
    sums, counts = None, torch.zeros(classes)
    for part in indices.split(500):
        batch = subject.batch(part)
        coupling = coupling_of(subject, batch.images)
        sums = torch.zeros(classes, *coupling.shape[1:]) if sums is None else sums
        for k in range(batch.classes.shape[1]):
            sums.index_add_(0, batch.classes[:, k], coupling)
            counts += torch.bincount(batch.classes[:, k], minlength=classes)
    assert sums is not None
    return sums / counts.clamp(min=1)[:, None, None]


def analyse(subject: Subject, indices: Tensor, examples: Tensor, out: Path) -> dict[str, Any]:
    """Draw both figures and write the numbers."""
    batch = subject.batch(examples)
    single, mean, prior = (
        coupling_of(subject, batch.images),
        mean_coupling(subject, indices),
        log_priors(subject),
    )
    files = save_figure(
        draw_examples(subject, batch.images, batch.classes[:, 0], single), out, "routing-examples"
    )
    files += save_figure(draw_mean(subject, mean, prior), out, "routing-mean")
    names = subject.dataset.class_names
    rows = [
        {
            "image_class": names[c],
            "class_capsule": names[j],
            "primary_capsule": i,
            "mean_coupling": float(mean[c, j, i]),
            "log_prior": float(prior[j, i]) if prior is not None else None,
        }
        for c in range(mean.shape[0])
        for j in range(mean.shape[1])
        for i in range(mean.shape[2])
    ]
    write_csv(out / "routing.csv", rows)
    own = torch.stack([mean[j, j].mean() for j in range(mean.shape[0])])
    return {
        "images": len(indices),
        "examples": examples.tolist(),
        "uniform": 1 / mean.shape[1],
        "mean_coupling_to_own_class": own.tolist(),
        "mean_coupling": mean.tolist(),
        "log_prior": prior.tolist() if prior is not None else None,
        "files": [str(f) for f in files],
    }


def draw_examples(subject: Subject, images: Tensor, labels: Tensor, coupling: Tensor) -> "Figure":
    """Draw pictures, and below each a map: class capsules down, primary capsules across."""
    count, names = len(images), subject.dataset.class_names
    columns = min(5, count)
    rows = -(-count // columns)
    figure = new_figure(2.2 * columns, 3.0 * rows)
    grid = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=[0.7, 1.0] * rows)
    top = float(coupling.max())
    pictures, shown = subject.shown(images), None
    for n in range(rows * columns):
        picture, heat = grid[n // columns * 2][n % columns], grid[n // columns * 2 + 1][n % columns]
        if n >= count:
            picture.axis("off")
            heat.axis("off")
            continue
        show_picture(picture, pictures[n])
        picture.set_title(f"class {names[int(labels[n])]}", fontsize=8)
        shown = heat_map(heat, coupling[n], names, 0, top, labels=n % columns == 0)
        if n // columns == rows - 1:
            heat.set_xlabel("primary capsule", fontsize=8)
        if n % columns == 0:
            heat.set_ylabel("class capsule", fontsize=8)
    assert shown is not None
    figure.colorbar(shown, ax=grid[1::2].ravel().tolist(), shrink=0.5, label="coupling")
    return figure


def heat_map(
    axes: Any, values: Tensor, names: tuple[str, ...], low: float, high: float, *, labels: bool
) -> Any:
    shown = axes.imshow(values.numpy(), vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(names)) if labels else [], names if labels else [], fontsize=6)
    axes.tick_params(length=0, labelsize=6)
    if values.shape[1] <= 32:
        axes.set_xticks(range(0, values.shape[1], 5))
    return shown


def draw_mean(subject: Subject, mean: Tensor, prior: Tensor | None) -> "Figure":
    """Draw the mean coupling to the image's own class, to each class over all images, and the log priors."""
    names = subject.dataset.class_names
    classes = len(names)
    own = torch.stack([mean[j, j] for j in range(classes)])
    panels: list[tuple[str, Tensor, bool]] = [
        ("mean coupling to the capsule\nof the image's own class", own, False),
        ("mean coupling to each capsule,\nover all images", mean.mean(dim=0), False),
    ]
    if prior is not None:
        panels.append(("learned log prior", prior, True))
    figure = new_figure(3.1 * len(panels), 3.2)
    for axes, (title, values, signed) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        limit = float(values.abs().max())
        shown = heat_map(axes, values, names, -limit if signed else 0, limit, labels=True)
        if signed:
            shown.set_cmap("PuOr")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("primary capsule")
        axes.set_ylabel("image's class" if values is own else "class capsule")
        figure.colorbar(shown, ax=axes, shrink=0.85)
    return figure
