"""Solid parts, and how parts join into a body.

A part is an implicit surface: `distance(p)` is negative inside, zero on the surface and close to the true
distance outside. Near is good enough, because surface.py walks along the gradient to the zero. Parts of one
group melt into each other (flesh, `blend` > 0), groups merely touch (metal).

Letters: p (3, N) points, float32; x forward, y to the left, z up. A mirrored part is seen through |y|, so
that one part is a pair: two wings, two wheels.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Vector = tuple[float, float, float]


def rotation(turn: Vector) -> Floats:
    """Yaw (about z), pitch (about y, positive lowers the nose), roll (about x), in degrees; rolled first."""
    (cz, cy, cx), (sz, sy, sx) = np.cos(np.radians(turn)), np.sin(np.radians(turn))
    return np.array(
        [
            [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx],
            [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx],
            [-sy, cy * sx, cy * cx],
        ],
        dtype=np.float32,
    )


def _length(*axes: Floats) -> Floats:
    total = axes[0] * axes[0]
    for axis in axes[1:]:
        total += axis * axis
    return np.sqrt(total)


def walk(start: Vector, pitch: float, length: float, side: float = 0.0) -> Vector:
    """The end of a stick that starts at `start`; pitch 0 points forward, 90 up."""
    angle = np.radians(pitch)
    return (
        start[0] + length * float(np.cos(angle)),
        start[1] + side,
        start[2] + length * float(np.sin(angle)),
    )


@dataclass(frozen=True, kw_only=True)
class Part(ABC):
    mirrored: bool = False
    albedo: float = 1.0  # of the body's paint

    def distance(self, p: Floats) -> Floats:
        if self.mirrored:
            p = np.stack([p[0], np.abs(p[1]), p[2]])
        return self._distance(p)

    @abstractmethod
    def _distance(self, p: Floats) -> Floats: ...


@dataclass(frozen=True, kw_only=True)
class Placed(Part):
    centre: Vector
    turn: Vector = (0.0, 0.0, 0.0)

    def _local(self, p: Floats) -> tuple[Floats, Floats, Floats]:
        q = [p[axis] - np.float32(self.centre[axis]) for axis in range(3)]
        if not any(self.turn):
            return q[0], q[1], q[2]
        r = rotation(self.turn)
        # Written out: a BLAS product would sum in an order that depends on the machine.
        x, y, z = (q[0] * r[0, i] + q[1] * r[1, i] + q[2] * r[2, i] for i in range(3))
        return x, y, z


@dataclass(frozen=True, kw_only=True)
class Ball(Placed):
    """An ellipsoid with the given radii."""

    radii: Vector

    def _distance(self, p: Floats) -> Floats:
        near, far = [], []
        for axis, radius in zip(self._local(p), self.radii, strict=True):
            near.append(axis / np.float32(radius))
            far.append(near[-1] / np.float32(radius))
        size = _length(*near)
        return size * (size - 1) / (_length(*far) + np.float32(1e-6))


@dataclass(frozen=True, kw_only=True)
class Limb(Part):
    """A round bar from `a` to `b`, its radius going from `ra` to `rb`."""

    a: Vector
    b: Vector
    ra: float
    rb: float

    def _distance(self, p: Floats) -> Floats:
        a, b = np.array(self.a, dtype=np.float32), np.array(self.b, dtype=np.float32)
        along = b - a
        q = [p[axis] - a[axis] for axis in range(3)]
        square = np.float32(max(float((along * along).sum()), 1e-8))
        t = np.clip((q[0] * along[0] + q[1] * along[1] + q[2] * along[2]) / square, 0, 1)
        away = _length(*(q[axis] - t * along[axis] for axis in range(3)))
        return away - (np.float32(self.ra) + t * np.float32(self.rb - self.ra))


@dataclass(frozen=True, kw_only=True)
class Box(Placed):
    """A rounded box. Its top face is `top` times (x, y) the bottom one, moved forward by `shift`."""

    half: Vector
    round: float = 0.02
    top: tuple[float, float] = (1.0, 1.0)
    shift: float = 0.0

    def _distance(self, p: Floats) -> Floats:
        x, y, z = self._local(p)
        scale: Floats | float = 1.0
        if self.top != (1.0, 1.0) or self.shift:
            height = np.clip(z / np.float32(2 * self.half[2]) + np.float32(0.5), 0, 1)
            along = 1 + height * np.float32(self.top[0] - 1)
            across = 1 + height * np.float32(self.top[1] - 1)
            x, y = (x - height * np.float32(self.shift)) / along, y / across
            # Leaning faces would look farther than they are, and their points be missed.
            slope = (abs(self.shift) + self.half[0] * abs(self.top[0] - 1)) / (2 * self.half[2])
            scale = np.minimum(np.minimum(along, across), 1) / np.float32(np.sqrt(1 + slope**2))
        edge = min(self.round, *self.half)
        q = [np.abs(v) - np.float32(h - edge) for v, h in zip((x, y, z), self.half, strict=True)]
        outside = _length(*(np.maximum(v, 0) for v in q))
        inside = np.minimum(np.maximum(np.maximum(q[0], q[1]), q[2]), 0)
        return (outside + inside - np.float32(edge)) * scale


@dataclass(frozen=True, kw_only=True)
class Drum(Placed):
    """A cylinder with flat ends about its own y axis: as it stands, a wheel."""

    radius: float
    half: float
    round: float = 0.01

    def _distance(self, p: Floats) -> Floats:
        x, y, z = self._local(p)
        edge = np.float32(min(self.round, self.half, self.radius))
        out = _length(x, z) - (np.float32(self.radius) - edge)
        end = np.abs(y) - (np.float32(self.half) - edge)
        return _length(np.maximum(out, 0), np.maximum(end, 0)) + np.minimum(np.maximum(out, end), 0) - edge


@dataclass(frozen=True, kw_only=True)
class Plate(Placed):
    """A flat piece: a polygon in its own x, y plane, `half` thick to either side. Wings and fins."""

    corners: tuple[tuple[float, float], ...]
    half: float = 0.012

    def _distance(self, p: Floats) -> Floats:
        x, y, z = self._local(p)
        corners = np.array(self.corners, dtype=np.float32)
        square = np.full_like(x, np.inf)
        inside = np.zeros(x.shape, dtype=bool)
        for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            ex, ey, px, py = bx - ax, by - ay, x - ax, y - ay
            t = np.clip((px * ex + py * ey) / (ex * ex + ey * ey), 0, 1)
            square = np.minimum(square, (px - t * ex) ** 2 + (py - t * ey) ** 2)
            if ay != by:
                inside ^= ((y >= ay) != (y >= by)) & (px < py * ex / ey)
        flat = np.where(inside, -np.sqrt(square), np.sqrt(square))
        edge = np.float32(self.half * 0.8)
        out, end = flat, np.abs(z) - np.float32(self.half) + edge
        return _length(np.maximum(out, 0), np.maximum(end, 0)) + np.minimum(np.maximum(out, end), 0) - edge


def _melt(a: Floats, b: Floats, blend: float) -> Floats:
    if blend <= 0:
        return np.minimum(a, b)
    overlap = np.maximum(np.float32(blend) - np.abs(a - b), 0)
    return np.minimum(a, b) - overlap * overlap * np.float32(0.25 / blend)


@dataclass
class Body:
    """Groups of parts; `paint` is the albedo of the whole."""

    groups: list[tuple[float, list[Part]]] = field(default_factory=list)
    paint: float = 0.8

    def add(self, *parts: Part, blend: float = 0.0) -> None:
        self.groups.append((blend, list(parts)))

    @property
    def parts(self) -> Sequence[Part]:
        return [part for _, group in self.groups for part in group]

    def distance(self, p: Floats) -> Floats:
        whole: Floats | None = None
        for blend, group in self.groups:
            one = group[0].distance(p)
            for part in group[1:]:
                one = _melt(one, part.distance(p), blend)
            whole = one if whole is None else np.minimum(whole, one)
        assert whole is not None
        return whole

    def albedo(self, p: Floats) -> Floats:
        """The paint of the part nearest to each point."""
        parts = self.parts
        nearest = np.argmin(np.stack([part.distance(p) for part in parts]), axis=0)
        return np.float32(self.paint) * np.array([part.albedo for part in parts], dtype=np.float32)[nearest]
