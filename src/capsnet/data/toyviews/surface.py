"""From a body to the points of its surface, dense enough to draw.

Cells that the surface may cross are halved until they are `spacing` wide; the centres of the last ones walk
along the gradient onto the surface. The body is then moved and scaled: it stands on z = 0, centred over the
origin, and fits in a ball of radius `reach`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from capsnet.data.toyviews.solids import Body, Floats

BLOCK = 8192  # points at a time: temporaries then stay in the cache, which is twice as fast
HALVINGS = 4
# of a tetrahedron
CORNERS = np.array([[1, -1, -1, 1], [1, -1, 1, -1], [1, 1, -1, -1]], dtype=np.float32)


@dataclass(frozen=True)
class Surface:
    points: Floats  # (3, N)
    normals: Floats  # (3, N), outward
    albedo: Floats  # (N,)
    height: float  # of the middle of the body


def _blocks(function: Callable[[Floats], Floats], p: Floats) -> Floats:
    parts = [function(p[:, i : i + BLOCK]) for i in range(0, p.shape[1], BLOCK)]
    return np.concatenate(parts, axis=-1)


def _gradient(body: Body, p: Floats, step: float) -> Floats:
    """(4, N): the value and the gradient, from four evaluations."""
    taps = [body.distance(p + np.float32(step) * CORNERS[:, i : i + 1]) for i in range(4)]
    value = (taps[0] + taps[1] + taps[2] + taps[3]) / 4
    slopes = [sum(CORNERS[axis, i] * taps[i] for i in range(4)) / np.float32(4 * step) for axis in range(3)]
    return np.stack([value, *slopes])


def _crossed(body: Body, spacing: float, extent: float) -> Floats:
    cell = spacing * 2**HALVINGS
    count = int(np.ceil(extent / cell))
    line = ((np.arange(-count, count) + 0.5) * cell).astype(np.float32)
    p = np.stack(np.meshgrid(line, line, line, indexing="ij")).reshape(3, -1)
    for _ in range(HALVINGS):
        # 1.25 over the half diagonal, as the distances are only near the true ones
        p = p[:, np.abs(_blocks(body.distance, p)) < 1.25 * 0.87 * cell]
        cell /= 2
        shifts = (np.indices((2, 2, 2)).reshape(3, -1) - 0.5).astype(np.float32) * np.float32(cell)
        p = (p[:, :, None] + shifts[:, None, :]).reshape(3, -1)
    return p[:, np.abs(_blocks(body.distance, p)) < 0.6 * cell]


def sample(body: Body, *, spacing: float, reach: float, extent: float = 1.6) -> Surface:
    """The surface of `body`, within +-`extent`; neighbours are about `spacing` apart once scaled."""
    rough = _crossed(body, 0.03, extent)
    radius, _ = _frame(rough)
    own = spacing * radius / reach
    p = _crossed(body, own, extent)
    for _ in range(2):
        g = _blocks(lambda q: _gradient(body, q, own / 4), p)
        p = p - g[1:] * (np.clip(g[0], -own, own) / np.maximum((g[1:] ** 2).sum(axis=0), 0.1))
    g = _blocks(lambda q: _gradient(body, q, own / 4), p)
    steep = np.sqrt((g[1:] ** 2).sum(axis=0))
    kept = (np.abs(g[0]) < 0.3 * own) & (steep > 0.2)
    p, normals = p[:, kept], g[1:, kept] / steep[kept]
    albedo = _blocks(body.albedo, p)
    radius, middle = _frame(p)
    points = (p - middle[:, None]) * np.float32(reach / radius)
    lowest = float(points[2].min())
    points[2] -= np.float32(lowest)
    return Surface(points.astype(np.float32), normals.astype(np.float32), albedo, -lowest)


def _frame(p: Floats) -> tuple[float, Floats]:
    middle = (p.min(axis=1) + p.max(axis=1)) / 2
    radius = float(np.sqrt(((p - middle[:, None]) ** 2).sum(axis=0)).max())
    return radius, middle.astype(np.float32)
