"""Do capsules encode transformations linearly? The paper's table of principal components, and a linear read-out.

Efficient-CapsNet eqs. 8 to 12: each test image under 11 shifts on x, 11 on y and 51 rotations; of the true class's capsule,
the share r of the variance that the first principal component has. Eq. 12 sums over "N classes" but means the D dimensions.
Uniform random vectors give 25.6 % for 11 samples and 13.5 % for 51, which checks the computation without a network.

A high r says that the capsule moves along a line, not that the line is the same for all images. So, beyond the paper: one
linear map per class from the capsule to the parameter, fitted on half of the images, with R squared on the other half.

Letters: N images, K transformed copies of each, D pose size, J classes.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from capsnet.analysis.subject import Subject
from capsnet.analysis.transformations import LINEAR, TABLE, Transformation

COPIES = 6
CHUNK = 50


def explained(points: Tensor) -> Tensor:
    """Return the share of the variance of each principal component, the largest first: (N, K, D) -> (N, D)."""
    points = points.double()
    centred = points - points.mean(dim=1, keepdim=True)
    covariance = centred.mT @ centred / points.shape[1]
    variances = torch.linalg.eigvalsh(covariance).clamp(min=0).flip(-1)
    return variances / variances.sum(dim=1, keepdim=True).clamp(min=1e-300)


def random_shares(images: int, copies: int, size: int = 16, seed: int = 0) -> Tensor:
    """Return the shares of uniform random vectors: the table's first row."""
    generator = torch.Generator().manual_seed(seed)
    return explained(torch.rand(images, copies, size, generator=generator))


def true_capsules(subject: Subject, images: Tensor, labels: Tensor) -> Tensor:
    """Return the capsule of each image's own class: (N, C, H, W) -> (N, D)."""
    poses = subject.run(images).poses
    return poses[torch.arange(len(labels)), labels]


def transformed_capsules(
    subject: Subject, images: Tensor, labels: Tensor, values: Tensor, by: Transformation
) -> Tensor:
    """Return the capsule of each transformed copy of each image: (N, K) values -> (N, K, D)."""
    n, k = values.shape
    copies = by.apply(images.repeat_interleave(k, dim=0), values.flatten())
    return true_capsules(subject, copies, labels.repeat_interleave(k)).unflatten(0, (n, k))


def shares_table(
    subject: Subject, indices: Tensor, on_images: Callable[[int], None] = lambda n: None
) -> dict[str, Tensor]:
    """Return the shares of the variance (N, D) for each transformation of the paper's table."""
    subject.require_capsules()
    found: dict[str, list[Tensor]] = {by.name: [] for by, _ in TABLE}
    for part in indices.split(CHUNK):
        batch = subject.batch(part)
        labels = batch.classes[:, 0]
        for by, steps in TABLE:
            values = torch.linspace(by.low, by.high, steps).expand(len(part), steps)
            found[by.name].append(explained(transformed_capsules(subject, batch.images, labels, values, by)))
        on_images(len(part))
    return {name: torch.cat(parts) for name, parts in found.items()}


def linear_read_out(subject: Subject, indices: Tensor, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Return R squared of a linear map from the capsule, one map per class, for each transformation, on held-out images."""
    subject.require_capsules()
    generator = torch.Generator().manual_seed(seed)
    batch = subject.batch(indices)
    labels = batch.classes[:, 0]
    fitted = torch.rand(len(indices), generator=generator) < 0.5
    result: dict[str, dict[str, Any]] = {}
    for by in LINEAR:
        values = by.low + (by.high - by.low) * torch.rand(len(indices), COPIES, generator=generator)
        capsules = transformed_capsules(subject, batch.images, labels, values, by)
        by_class: list[float | None] = []
        residual, total = 0.0, 0.0
        for j in range(subject.dataset.num_classes):
            mine = labels == j
            parts = (mine & fitted, mine & ~fitted)
            # A map with a bias needs more images than it has numbers.
            if min(int(part.sum()) for part in parts) * COPIES <= 2 * capsules.shape[-1]:
                by_class.append(None)
                continue
            left, sums = residuals(
                *(t[part].flatten(0, 1) for part in parts for t in (capsules, values[..., None]))
            )
            by_class.append(1 - left / sums)
            residual, total = residual + left, total + sums
        result[by.name] = {
            "r_squared": 1 - residual / total if total else None,
            "by_class": by_class,
            "low": by.low,
            "high": by.high,
            "unit": by.unit,
        }
    return result


def residuals(fit_x: Tensor, fit_y: Tensor, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Return the residual squares of a least-squares fit, and the squares about the mean, both on the second set."""

    def with_bias(a: Tensor) -> Tensor:
        return torch.cat([a.double(), torch.ones(len(a), 1, dtype=torch.float64)], dim=1)

    weight = torch.linalg.lstsq(with_bias(fit_x), fit_y.double(), driver="gelsd").solution
    left = (y.double() - with_bias(x) @ weight).square().sum()
    return float(left), float((y.double() - fit_y.double().mean()).square().sum())


def describe(subject: Subject, indices: Tensor, shares: dict[str, Tensor], seed: int = 0) -> dict[str, Any]:
    """Return the table's numbers for JSON: mean, deviation over images, per class, and the cumulative curve."""
    labels = subject.dataset.test.labels[indices]
    whole = len(indices) == len(subject.dataset.test.labels)
    table = {}
    for (by, steps), values in zip(TABLE, shares.values(), strict=True):
        first = values[:, 0]
        chance = random_shares(10_000, steps, values.shape[1], seed)
        table[by.name] = {
            "samples": steps,
            "first_component_percent": 100 * float(first.mean()),
            "deviation_percent": 100 * float(first.std()) if len(first) > 1 else None,
            "by_class_percent": [
                100 * float(first[labels == j].mean()) if bool((labels == j).any()) else None
                for j in range(subject.dataset.num_classes)
            ],
            "cumulative_percent": (100 * values.mean(dim=0).cumsum(0)).tolist(),
            "random_first_component_percent": 100 * float(chance[:, 0].mean()),
            "random_cumulative_percent": (100 * chance.mean(dim=0).cumsum(0)).tolist(),
        }
    return {
        "weights": subject.weights,
        "model": subject.name,
        "dataset": subject.dataset.name,
        "images": len(indices),
        "all_test_images": whole,
        "seed": None if whole else seed,
        "table": table,
    }
