"""What capsules keep of a picture: the input, and below it what each network's decoder makes of it.

MultiMNIST's two digits are decoded separately, each from its own capsule, and laid over each other in two colours.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from capsnet.analysis.plotting import new_figure, save_figure, show_mosaic, write_csv
from capsnet.analysis.subject import Subject, labels
from capsnet.data.base import Batch

# Orange and blue, whose sum is light: the overlap of two digits shows.
TWO_COLOURS = np.array([[0.90, 0.62, 0.0], [0.0, 0.45, 0.70]], dtype=np.float32)


def reconstruct_test(subject: Subject, indices: Tensor) -> tuple[Batch, Tensor, Tensor]:
    """Return the images, the K best-scored classes (B, K), and the pictures (B, K, C, H, W) of their capsules."""
    subject.require_decoder()
    batch = subject.batch(indices)
    output = subject.run(batch.images)
    found = output.scores.topk(batch.classes.shape[1], dim=1).indices
    pictures = [subject.reconstruct(output.poses, found[:, n]) for n in range(found.shape[1])]
    return batch, found, torch.stack(pictures, dim=1)


def overlay(pictures: Tensor) -> np.ndarray:
    """Lay two digits (2, 1, H, W) over each other, as ink in two colours on white (3, H, W)."""
    ink = pictures[:, 0].clamp(0, 1).numpy()
    light = 1 - (ink[:, None] * (1 - TWO_COLOURS)[:, :, None, None]).sum(axis=0)
    return np.clip(light, 0, 1).astype(np.float32)


def reconstruct(subjects: Sequence[Subject], indices: Tensor, out: Path) -> dict[str, Any]:
    """Draw the pictures, and return each network's mean squared error on them."""
    names = [subject.weights for subject in subjects]
    rows: list[dict[str, Any]] = []
    drawn: list[tuple[str, list[np.ndarray]]] = []
    batch = None
    for subject, label in zip(subjects, labels(subjects), strict=True):
        batch, found, pictures = reconstruct_test(subject, indices)
        # Which of a pair's capsules stands for which digit is matched by class.
        order = found.argsort(dim=1).argsort(dim=1) if found.shape[1] == 1 else match(found, batch.classes)
        pictures = pictures.gather(1, order[:, :, None, None, None].expand_as(pictures))
        error = (pictures - batch.originals).square().mean(dim=(1, 2, 3, 4))
        rows += [
            {"weights": subject.weights, "index": int(i), "squared_error": float(e), "found": str(f)}
            for i, e, f in zip(indices, error, found.tolist(), strict=True)
        ]
        if not drawn:
            drawn.append(("input", list(subject.shown(batch.images))))
            if found.shape[1] == 2:
                drawn.append(("its digits", [overlay(two) for two in batch.originals]))
        made = (
            [overlay(two) for two in pictures] if found.shape[1] == 2 else list(subject.shown(pictures[:, 0]))
        )
        drawn.append((label, made))
    assert batch is not None
    files = draw(drawn, out)
    write_csv(out / "reconstruct.csv", rows)
    means = {
        name: float(np.mean([row["squared_error"] for row in rows if row["weights"] == name]))
        for name in names
    }
    return {"images": indices.tolist(), "mean_squared_error": means, "files": [str(f) for f in files]}


def match(found: Tensor, classes: Tensor) -> Tensor:
    """Return, for each true class, the position of the found class that equals it; a class not found takes what is left."""
    first_is_first = (found[:, 0] == classes[:, 0]) | (found[:, 1] == classes[:, 1])
    straight, crossed = torch.tensor([0, 1]), torch.tensor([1, 0])
    return torch.where(first_is_first[:, None], straight, crossed)


def draw(rows: list[tuple[str, list[np.ndarray]]], out: Path) -> list[Path]:
    """Draw one row per network, pictures side by side."""
    columns = len(rows[0][1])
    figure = new_figure(1.6 + 0.62 * columns, 0.15 + 0.66 * len(rows))
    show_mosaic(
        figure.subplots(), [pictures for _, pictures in rows], [name.replace("_", " ") for name, _ in rows]
    )
    return save_figure(figure, out, "reconstruct")
