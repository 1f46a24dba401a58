"""What each number of a capsule encodes: move one at a time and look at the picture.

The paper's figure (after Sabour et al. 2017, fig. 4): 11 steps in +-0.25, 16 dimensions. For networks without class
capsules, the 16 features that change the picture most are moved, by the same steps times each feature's standard deviation
over test images, since features have no common scale.

Letters: D dimensions, S steps.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from capsnet.analysis.plotting import new_figure, save_figure, show_mosaic, write_csv
from capsnet.analysis.subject import Subject
from capsnet.files import replacing

STEPS, REACH, DIMENSIONS = 11, 0.25, 16
ENLARGE = 3


def perturb(subject: Subject, index: int, *, steps: int = STEPS, reach: float = REACH) -> dict[str, Any]:
    """Decode one test image's capsule with each dimension moved: pictures (D, S, C, H, W), and what was moved."""
    subject.require_decoder()
    batch = subject.batch(torch.tensor([index]))
    output = subject.run(batch.images)
    offsets = torch.linspace(-reach, reach, steps)
    best = int(output.scores.argmax())
    pose = output.poses[0, best] if output.poses.ndim == 3 else output.poses[0]
    scale = torch.ones_like(pose)
    if output.poses.ndim != 3:
        some = subject.run(subject.batch(subject.choose(500)).images).poses
        # The whole range of the capsules' lengths, -1 to 1, is about four deviations.
        scale = 4 * some.std(dim=0)
    moved = pose.repeat(len(pose), steps, 1)
    moved += torch.diag(scale)[:, None, :] * offsets[None, :, None]
    flat = moved.flatten(0, 1)
    if output.poses.ndim == 3:
        whole = output.poses.repeat(len(flat), 1, 1)
        whole[:, best] = flat
        pictures = subject.reconstruct(whole, torch.full((len(flat),), best))
    else:
        pictures = subject.reconstruct(flat)
    pictures = pictures.unflatten(0, (len(pose), steps))
    change = (pictures - pictures[:, steps // 2 : steps // 2 + 1]).abs().mean(dim=(2, 3, 4))
    shown = torch.arange(len(pose))
    if len(pose) > DIMENSIONS:
        shown = change.amax(dim=1).topk(DIMENSIONS).indices.sort().values
    return {
        "index": index,
        "image": batch.images[0],
        "label": int(batch.classes[0, 0]),
        "found": best,
        "offsets": offsets,
        "dimensions": shown,
        "pictures": pictures[shown],
        "change": change[shown],
    }


def draw(subject: Subject, made: dict[str, Any], out: Path) -> dict[str, Any]:
    """Write the grid, the animation and the numbers."""
    pictures: Tensor = made["pictures"]
    dimensions, steps = pictures.shape[:2]
    figure = new_figure(0.9 + 0.55 * steps, 0.6 + 0.55 * dimensions)
    axes = figure.subplots()
    titles = ["0" if n == steps // 2 else f"{float(o):+.2f}" for n, o in enumerate(made["offsets"])]
    shown = subject.shown(pictures.flatten(0, 1)).reshape(dimensions, steps, 3, *pictures.shape[3:4], -1)
    show_mosaic(axes, list(shown), [str(int(d)) for d in made["dimensions"]], titles)
    axes.set_ylabel("dimension of the capsule")
    name = subject.dataset.class_names[made["found"]]
    figure.suptitle(f"{subject.name}: test image {made['index']}, capsule of class {name}", fontsize=10)
    files = save_figure(figure, out, "perturb")
    files.append(animate(shown, made["dimensions"].tolist(), out / "perturb.gif"))
    rows = [
        {
            "dimension": int(d),
            **{f"{float(o):+.3f}": float(c) for o, c in zip(made["offsets"], line, strict=True)},
        }
        for d, line in zip(made["dimensions"], made["change"], strict=True)
    ]
    write_csv(out / "perturb.csv", rows)
    return {
        "index": made["index"],
        "label": made["label"],
        "found": made["found"],
        "offsets": made["offsets"].tolist(),
        "dimensions": made["dimensions"].tolist(),
        "mean_absolute_change": made["change"].tolist(),
        "files": [str(f) for f in files],
    }


def animate(pictures: np.ndarray, names: Sequence[int], path: Path) -> Path:
    """Write all dimensions (D, S, 3, H, W) at once as a GIF, each swept there and back."""
    dimensions, steps, _, height, width = pictures.shape
    columns = int(np.ceil(np.sqrt(dimensions)))
    rows = -(-dimensions // columns)
    cell = (height * ENLARGE + 14, width * ENLARGE + 4)
    pixels = np.rint(pictures * 255).astype(np.uint8).transpose(0, 1, 3, 4, 2)
    mode = "L" if bool((pixels == pixels[..., :1]).all()) else "RGB"
    frames = []
    for step in [*range(steps), *range(steps - 2, 0, -1)]:
        frame = Image.new(mode, (columns * cell[1], rows * cell[0]), "white")
        pen = ImageDraw.Draw(frame)
        for n in range(dimensions):
            small = Image.fromarray(pixels[n, step])
            left, top = n % columns * cell[1], n // columns * cell[0]
            pen.text((left + 2, top), str(names[n]), fill="black")
            frame.paste(
                small.resize((width * ENLARGE, height * ENLARGE), Image.Resampling.NEAREST),
                (left + 2, top + 12),
            )
        frames.append(frame)
    with replacing(path) as temporary:
        frames[0].save(temporary, format="GIF", save_all=True, append_images=frames[1:], duration=120, loop=0)
    return path
