"""The renderer: surface points, drawn far to near, lit by four lamps that turn with the camera.

Points (splats) won over rays: a view is one sort and a few gathers, whatever the number of parts. On one core
it took 7 to 9 ms with nine samples a pixel, and 1 ms for its share of the shadows; marching rays through the
distance field took 22 to 54 ms with one sample and no shadows. Light adds up, so a view is drawn as five
layers (what each lamp gives, shadows included, and the ambient light) and a lighting is a mix of them: six
lightings for one geometry. The shadows of an azimuth serve all its elevations and both eyes.

Letters: N points, S pixels a side, L = 4 lamps, directions are unit vectors towards the lamp or the eye.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsnet.data.toyviews.shadows import Shadow, basis, bilinear, direction, dot, floats, rank
from capsnet.data.toyviews.solids import Floats
from capsnet.data.toyviews.surface import Surface

Bytes = NDArray[np.uint8]

SIZE = 96
PIXELS = 65.0  # of an image of SIZE pixels, to a unit of length at the distance of the body
FINE = 3  # samples a pixel, on either axis
SPACING = 0.8 / (PIXELS * FINE)  # of the points, under one sample: no holes, as a point covers 2 x 2
DISTANCE = 4.0
BASELINE = 0.36  # between the eyes; both look at the middle of the body
GAMMA = 1 / 2.2

# azimuth from the camera, elevation
LAMPS = ((-50.0, 38.0), (58.0, 32.0), (-145.0, 42.0), (100.0, 72.0))
# what each lamp gives in each lighting, then the ambient light
LIGHTINGS = np.array(
    [
        [0.45, 0.35, 0.15, 0.30, 0.40],
        [1.15, 0.00, 0.00, 0.15, 0.30],
        [0.00, 1.15, 0.10, 0.00, 0.30],
        [0.10, 0.10, 1.10, 0.10, 0.38],
        [0.00, 0.00, 0.20, 0.95, 0.28],
        [0.35, 0.30, 0.00, 0.00, 0.18],
    ],
    dtype=np.float32,
)
GLOSS, POLISH = 0.22, 4  # strength of the highlights; their exponent is 2 ** POLISH
GROUND = 0.45
FIELD = 2.5  # half the side of the ground, more than any camera sees
SKY = 40  # directions that the ambient light comes from


@dataclass(frozen=True)
class Scene:
    """A body with the ambient light that reaches it and the ground about it; the same from everywhere."""

    surface: Surface
    ambient: Floats  # (N,)
    ground: Floats  # (G, G), over +-FIELD in x (columns) and y (rows)
    texture: Floats  # (G, G)
    size: int

    @property
    def middle(self) -> Floats:
        return floats(0, 0, self.surface.height)


def scene(surface: Surface, *, size: int = SIZE) -> Scene:
    middle = floats(0, 0, surface.height)
    total = np.zeros(surface.points.shape[1], dtype=np.float32)
    line = np.linspace(-FIELD, FIELD, 2 * size, dtype=np.float32)
    x, y = np.meshgrid(line, line)
    ground, weights = np.zeros_like(x), 0.0
    for i in range(SKY):
        # evenly over the upper half of the sphere: equal steps in height, the golden angle about
        towards = direction(i * 137.508, float(np.degrees(np.arcsin((i + 0.5) / SKY))))
        shadow = Shadow(surface.points, middle, towards, size)
        total += shadow.light(surface.points, surface.normals)
        ground += towards[2] * shadow.ground(shadow.cover(), x, y)
        weights += float(towards[2])
    # The second term is what the ground sends back up.
    ambient = total * np.float32(2 / SKY) + np.float32(0.18) * (1 - surface.normals[2])
    waves = np.sin(9 * x + 4 * y) * np.sin(7 * y - 3 * x + 1) + np.sin(21 * x - 13 * y + 2) * np.sin(
        17 * y + 8 * x
    )
    texture = np.float32(GROUND) * (1 + np.float32(0.05) * waves)
    return Scene(surface, ambient.astype(np.float32), ground / np.float32(weights), texture, size)


def look(azimuth: float, elevation: float, eye: int) -> tuple[Floats, Floats, Floats, np.float32]:
    """Where an eye is from the middle of the body, its right and its up, and how far it is."""
    head = direction(azimuth, elevation)
    side, above = basis(head)
    towards = head * np.float32(DISTANCE) + side * np.float32((eye - 0.5) * BASELINE)
    far = np.sqrt((towards * towards).sum())
    towards /= far
    # The eyes turn about the head's own up: about the world's they would roll against each other.
    right = np.cross(above, towards).astype(np.float32)
    right /= np.sqrt((right * right).sum())
    return towards, right, np.cross(towards, right).astype(np.float32), far


class Lit:
    """A scene under the four lamps, which stand where the camera's azimuth puts them."""

    def __init__(self, scene: Scene, azimuth: float) -> None:
        self.scene, self.azimuth = scene, azimuth
        surface = scene.surface
        cells = 2 * scene.size
        self.shadows = [
            Shadow(surface.points, scene.middle, direction(azimuth + around, above), cells)
            for around, above in LAMPS
        ]
        self.covers = [shadow.cover() for shadow in self.shadows]
        lamps = [shadow.light(surface.points, surface.normals) for shadow in self.shadows]
        self.layers = np.stack([*lamps, scene.ambient], axis=1)  # (N, L + 1)

    def view(self, elevation: float, eye: int) -> Floats:
        """(L + 1, S, S) linear light, seen by the left eye (0) or the right one (1)."""
        scene, size = self.scene, self.scene.size
        towards, right, up, far = look(self.azimuth, elevation, eye)
        camera = scene.middle + towards * far
        coverage, body = self._body(towards, right, up, far)
        ground = self._ground(camera, towards, right, up, far)
        return (ground * (1 - coverage) + body).reshape(-1, size, size)

    def _body(self, towards: Floats, right: Floats, up: Floats, far: np.float32) -> tuple[Floats, Floats]:
        size, surface = self.scene.size, self.scene.surface
        seen = np.flatnonzero(dot(surface.normals, towards) > -0.1)
        q = surface.points[:, seen] - self.scene.middle[:, None]
        depth = dot(q, towards)
        order = rank(depth)
        seen, q, depth = seen[order], q[:, order], depth[order]
        wide = size * FINE
        scale = np.float32(PIXELS * FINE * size / SIZE) * far / (far - depth)
        x = (dot(q, right) * scale + np.float32(wide / 2 - 1)).astype(np.int32)
        y = (np.float32(wide / 2 - 1) - dot(q, up) * scale).astype(np.int32)
        at = np.clip(y, 0, wide - 2) * wide + np.clip(x, 0, wide - 2)
        # The last of several writes to one place stays, and the nearest points come last.
        buffer = np.full(wide * wide, -1, dtype=np.int32)
        buffer[(at[:, None] + np.array([0, 1, wide, wide + 1], dtype=np.int32)).ravel()] = np.repeat(
            seen.astype(np.int32), 4
        )
        where = np.flatnonzero(buffer >= 0)
        which = buffer[where]
        pixel = (where // wide // FINE) * size + where % wide // FINE

        light = self.layers[which]
        albedo, normals = surface.albedo[which], surface.normals[:, which]
        coverage = np.bincount(pixel, minlength=size * size) / np.float32(FINE**2)
        layers = np.empty((light.shape[1], size * size), dtype=np.float32)
        for i in range(light.shape[1]):
            value = light[:, i] * albedo
            if i < len(LAMPS):
                half = towards + self.shadows[i].towards
                shine = np.maximum(dot(normals, half / np.sqrt((half * half).sum())), 0)
                for _ in range(POLISH):
                    shine = shine * shine
                value += np.float32(GLOSS) * shine * (light[:, i] > 0)
            layers[i] = np.bincount(pixel, weights=value, minlength=size * size) / FINE**2
        return coverage.astype(np.float32), layers

    def _ground(self, camera: Floats, towards: Floats, right: Floats, up: Floats, far: np.float32) -> Floats:
        scene, size = self.scene, self.scene.size
        step = (np.arange(size, dtype=np.float32) + np.float32(0.5 - size / 2)) / np.float32(
            PIXELS * size / SIZE
        )
        u, v = (axis.ravel() for axis in np.meshgrid(step, -step))
        ray = [right[i] * u + up[i] * v - towards[i] * far for i in range(3)]
        t = -camera[2] / ray[2]
        x, y = camera[0] + t * ray[0], camera[1] + t * ray[1]
        cells = len(scene.texture)
        scale, half = np.float32((cells - 1) / (2 * FIELD)), np.float32((cells - 1) / 2)
        albedo = bilinear(scene.texture, x * scale + half, y * scale + half)
        layers = [
            shadow.towards[2] * shadow.ground(cover, x, y)
            for shadow, cover in zip(self.shadows, self.covers, strict=True)
        ]
        layers.append(bilinear(scene.ground, x * scale + half, y * scale + half))
        return np.stack(layers) * albedo


def expose(layers: Floats) -> Bytes:
    """(6, S, S): the six lightings of a view, as a camera would keep them."""
    flat = layers.reshape(layers.shape[0], -1)
    light = np.zeros((len(LIGHTINGS), flat.shape[1]), dtype=np.float32)
    for i in range(len(flat)):
        light += LIGHTINGS[:, i : i + 1] * flat[i]
    picture = np.rint(255 * np.clip(light, 0, 1) ** np.float32(GAMMA))
    return picture.astype(np.uint8).reshape(-1, *layers.shape[1:])
