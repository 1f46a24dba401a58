"""Shadows: the body as a lamp sees it, which tells what the lamp reaches, on the body and on the ground.

Directions are unit vectors towards the lamp or the eye. Sums are written out: a BLAS product would sum in an
order that depends on the machine.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsnet.data.toyviews.solids import Floats

EXTENT = 0.8  # half the side of a shadow map


def floats(*values: Any) -> Floats:
    return np.array(values, dtype=np.float32)


def direction(azimuth: float, elevation: float) -> Floats:
    a, e = np.radians(azimuth), np.radians(elevation)
    return floats(np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e))


def dot(p: Floats, v: Floats) -> Floats:
    return p[0] * v[0] + p[1] * v[1] + p[2] * v[2]


def basis(towards: Floats) -> tuple[Floats, Floats]:
    """Right and up, for one who looks against `towards`."""
    right = floats(-towards[1], towards[0], 0)
    right /= np.sqrt((right * right).sum())
    return right, np.cross(towards, right).astype(np.float32)


def rank(depth: Floats) -> NDArray[np.intp]:
    """Indices from the least depth to the greatest. On 16 bits NumPy sorts by radix, five times faster."""
    low, high = float(depth.min()), float(depth.max())
    steps = ((depth - np.float32(low)) * np.float32(65535 / max(high - low, 1e-6))).astype(np.uint16)
    return np.argsort(steps, kind="stable")


def bilinear(picture: Floats, x: Floats, y: Floats) -> Floats:
    """`picture` (H, W) at pixel coordinates, clamped at its border."""
    h, w = picture.shape
    x, y = np.clip(x, 0, w - 1.001), np.clip(y, 0, h - 1.001)
    i, j = x.astype(np.int32), y.astype(np.int32)
    fx, fy = x - i, y - j
    at = j * w + i
    flat = picture.ravel()
    upper = flat[at] * (1 - fx) + flat[at + 1] * fx
    lower = flat[at + w] * (1 - fx) + flat[at + w + 1] * fx
    return upper * (1 - fy) + lower * fy


class Shadow:
    """What a far lamp sees: the depth of the nearest point in each cell of a square map."""

    def __init__(self, points: Floats, middle: Floats, towards: Floats, cells: int) -> None:
        self.towards, self.middle, self.cells = towards, middle, cells
        self.right, self.up = basis(towards)
        x, y = self._place(points)
        depth = dot(points, towards)
        order = rank(depth)
        at = np.rint(y[order]).astype(np.int32) * cells + np.rint(x[order]).astype(np.int32)
        nearest = np.full(cells * cells, -np.inf, dtype=np.float32)
        nearest[at] = depth[order]
        self.depth = nearest.reshape(cells, cells)

    def _place(self, p: Floats) -> tuple[Floats, Floats]:
        scale, half = np.float32(self.cells / (2 * EXTENT)), np.float32(self.cells / 2)
        x = dot(p, self.right) - (self.middle * self.right).sum()
        y = dot(p, self.up) - (self.middle * self.up).sum()
        edge = np.float32(self.cells - 2)
        return np.clip(x * scale + half, 1, edge), np.clip(y * scale + half, 1, edge)

    def light(self, p: Floats, normals: Floats) -> Floats:
        """Between 0 and 1: the cosine to the lamp, dimmed where something stands between."""
        lit = np.maximum(dot(normals, self.towards), 0)
        facing = np.flatnonzero(lit > 0)
        q = p[:, facing]
        x, y = self._place(q)
        cell = 2 * EXTENT / self.cells
        reach = dot(q, self.towards) + np.float32(1.6 * cell)
        i, j = x.astype(np.int32), y.astype(np.int32)
        fx, fy = x - i, y - j
        at = j * self.cells + i
        depth = self.depth.ravel()
        free = np.zeros_like(x)
        for step, weight in (
            (0, (1 - fx) * (1 - fy)),
            (1, fx * (1 - fy)),
            (self.cells, (1 - fx) * fy),
            (self.cells + 1, fx * fy),
        ):
            free += weight * (depth[at + step] <= reach)
        lit[facing] *= free
        return lit

    def cover(self) -> Floats:
        """Where the shadow falls, with a soft edge."""
        hit: Floats = np.isfinite(self.depth).astype(np.float32)
        for axis in (0, 1):
            hit = (np.roll(hit, 1, axis) + 2 * hit + np.roll(hit, -1, axis)) * np.float32(0.25)
        return hit

    def ground(self, cover: Floats, x: Floats, y: Floats) -> Floats:
        """How much of the lamp reaches the points (x, y, 0)."""
        i, j = self._place(np.stack([x, y, np.zeros_like(x)]))
        return 1 - bilinear(cover, i, j)
