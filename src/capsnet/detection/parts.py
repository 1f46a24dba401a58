"""Where the parts of a class's pictures are: a normal distribution per class, with one covariance for all.

The distance is Mahalanobis's, as Lee et al. 2018 take it of a CNN's features, divided by the number of dimensions. Votes are
linear in the parts, so it is the same distance between the votes and those that are usual for the class.

Letters: N images, J classes, F numbers that describe the parts.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

MOST = 512  # numbers; with more of them too much would have to be kept with the weights
FEW = 20  # with fewer images of a class, its mean is that of all
SHRINK = 0.1


@dataclass(frozen=True)
class Parts:
    """The mean of each class, and a lower triangular matrix that gives all directions the same deviation."""

    means: Float[np.ndarray, "j f"]
    whiten: Float[np.ndarray, "f f"]

    def distance(
        self, parts: Float[np.ndarray, "n f"], classes: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n"]:
        """Return the mean square of what is left after subtracting the class's mean and whitening; 1 is usual."""
        off = (parts.astype(np.float64) - self.means[classes]) @ self.whiten.T
        return np.square(off).mean(axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Return text for JSON: float32, of the matrix its lower triangle row by row."""
        lower = self.whiten[np.tril_indices(len(self.whiten))]
        return {"size": len(self.whiten), "means": _pack(self.means), "whiten": _pack(lower)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], num_classes: int) -> "Parts":
        """Read what `to_dict` wrote; a ValueError for anything else."""
        size = int(values["size"])
        if not 0 < size <= MOST:
            raise ValueError(f"parts have 1 to {MOST} numbers, not {size}")
        means = _unpack(values["means"], num_classes * size).reshape(num_classes, size)
        whiten = np.zeros((size, size))
        whiten[np.tril_indices(size)] = _unpack(values["whiten"], size * (size + 1) // 2)
        return cls(means, whiten)


def fit_parts(parts: Float[np.ndarray, "n f"], classes: Int[np.ndarray, "n"], num_classes: int) -> Parts:
    """Fit means and covariance. With few images the covariance is drawn towards that of independent numbers."""
    x = parts.astype(np.float64)
    count, size = x.shape
    own = [x[classes == k] for k in range(num_classes)]
    means = np.stack([part.mean(axis=0) if len(part) >= FEW else x.mean(axis=0) for part in own])
    off = x - means[classes]
    covariance = off.T @ off / max(count - 1, 1)
    shrink = min(1.0, 1e-3 + SHRINK * size / count)
    covariance += max(shrink * np.trace(covariance) / size, 1e-12) * np.eye(size)
    whiten = np.linalg.inv(np.linalg.cholesky(covariance))
    return Parts(means.astype(np.float32), np.tril(whiten).astype(np.float32))


def _pack(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def _unpack(text: Any, count: int) -> np.ndarray:
    if not isinstance(text, str) or len(text) > 6 * count + 8:
        raise ValueError("packed numbers are a text of their own length")
    values = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")
    if len(values) != count or not np.isfinite(values).all():
        raise ValueError(f"{count} finite numbers were expected")
    return values
