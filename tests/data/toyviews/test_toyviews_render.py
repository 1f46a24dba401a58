"""The pictures: solid bodies of several parts, two eyes, six lightings, the same on every machine."""

import numpy as np
import pytest
from numpy.typing import NDArray

from capsnet.data.toyviews import CATEGORIES, render, shapes
from capsnet.data.toyviews.solids import Ball, Body, Box, Drum, Limb, Plate
from capsnet.data.toyviews.surface import sample

SIZE = 48
SPACING = render.SPACING * render.SIZE / SIZE

# Mean of the left picture over 4 x 4 blocks of 12 pixels, first lighting, azimuth 40, elevation 40, seed 0.
RECORDED = [
    [
        [195.9, 195.7, 195.6, 196.1],
        [187.3, 223.5, 228.4, 189.6],
        [181.5, 198.9, 188.8, 178.9],
        [187.9, 171.5, 177.7, 189.7],
    ],
    [
        [196.3, 197.8, 198.3, 196.0],
        [195.7, 187.9, 195.3, 190.7],
        [185.2, 185.8, 186.0, 185.5],
        [194.2, 176.8, 181.0, 193.8],
    ],
    [
        [195.8, 195.7, 196.7, 195.7],
        [194.8, 205.2, 200.1, 192.5],
        [185.8, 183.5, 194.3, 190.1],
        [194.3, 192.8, 189.9, 194.6],
    ],
    [
        [195.8, 195.7, 196.3, 195.7],
        [193.6, 199.8, 201.5, 189.6],
        [185.0, 173.7, 167.2, 192.4],
        [193.9, 188.8, 192.9, 195.4],
    ],
    [
        [196.0, 195.7, 196.0, 196.1],
        [190.8, 196.4, 209.2, 194.5],
        [193.1, 233.6, 168.2, 186.8],
        [189.1, 178.2, 187.5, 194.1],
    ],
]


@pytest.fixture(scope="module")
def scenes() -> list[render.Scene]:
    return [
        render.scene(
            sample(shapes.body(c, 0, seed=0), spacing=SPACING, reach=shapes.reach(c, 0, seed=0)), size=SIZE
        )
        for c in range(len(CATEGORIES))
    ]


def _pictures(scene: render.Scene, azimuth: float = 40, elevation: float = 40) -> NDArray[np.float64]:
    """(6, 2, S, S)"""
    lit = render.Lit(scene, azimuth)
    eyes = [render.expose(lit.view(elevation, eye)) for eye in (0, 1)]
    return np.stack(eyes, axis=1).astype(np.float64)


@pytest.mark.parametrize("category", range(5))
def test_every_instance_has_several_parts_and_differs_from_the_others(category: int) -> None:
    bodies = [shapes.body(category, instance, seed=0) for instance in range(shapes.INSTANCES)]
    assert min(len(body.parts) for body in bodies) >= 8
    assert len({str(body.parts) for body in bodies}) == shapes.INSTANCES
    assert str(shapes.body(category, 4, seed=0).parts) == str(bodies[4].parts)
    assert str(shapes.body(category, 4, seed=1).parts) != str(bodies[4].parts)


def test_the_lots_are_dealt_by_the_seed() -> None:
    lots = {str([shapes.lots(c, seed=seed) for c in range(5)]) for seed in range(6)}
    assert len(lots) == 6


@pytest.mark.parametrize(
    ("part", "size"),
    [
        (Ball(centre=(0.1, 0, 0.2), radii=(0.5, 0.3, 0.2)), (1.0, 0.6, 0.4)),
        (Limb(a=(0, 0, 0), b=(0, 0, 1), ra=0.2, rb=0.1), (0.4, 0.4, 1.3)),
        (Box(centre=(0, 0, 0), half=(0.5, 0.4, 0.2)), (1.0, 0.8, 0.4)),
        (Box(centre=(0, 0, 0), half=(0.5, 0.4, 0.2), turn=(90, 0, 0)), (0.8, 1.0, 0.4)),
        (Box(centre=(0, 0, 0), half=(0.5, 0.4, 0.2), top=(0.3, 0.8)), (1.0, 0.8, 0.4)),
        (Drum(centre=(0, 0, 0), radius=0.4, half=0.1), (0.8, 0.2, 0.8)),
        (Drum(centre=(0, 0.5, 0), radius=0.4, half=0.1, mirrored=True), (0.8, 1.2, 0.8)),
        (Plate(centre=(0, 0, 0), corners=((0, 0), (0, 1), (1, 0)), half=0.05), (1.08, 1.08, 0.1)),
    ],
)
def test_the_surface_of_a_part_has_its_measures(part: Ball, size: tuple[float, float, float]) -> None:
    body = Body()
    body.add(part)
    surface = sample(body, spacing=0.02, reach=1.0)
    extent = surface.points.max(axis=1) - surface.points.min(axis=1)
    np.testing.assert_allclose(extent / extent.max(), np.array(size) / max(size), atol=0.03)
    assert surface.points[2].min() == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose((surface.normals**2).sum(axis=0), 1, atol=1e-3)


def test_a_ball_is_drawn_without_holes_and_as_large_as_geometry_says() -> None:
    body = Body()
    body.add(Ball(centre=(0, 0, 0), radii=(1, 1, 1)))
    scene = render.scene(sample(body, spacing=SPACING, reach=0.5), size=SIZE)
    light = render.Lit(scene, 0.0)
    towards = render.direction(0, 40)
    right, up = render.basis(towards)
    coverage, _ = light._body(towards, right, up, np.float32(render.DISTANCE))
    radius = 0.5 * render.PIXELS * SIZE / render.SIZE / np.sqrt(1 - (0.5 / render.DISTANCE) ** 2)
    y, x = np.indices((SIZE, SIZE)) - (SIZE - 1) / 2
    away = np.hypot(x, y)
    coverage = coverage.reshape(SIZE, SIZE)
    assert (coverage[away < radius - 1] == 1).all()
    assert (coverage[away > radius + 1.5] == 0).all()


def test_bodies_stand_on_the_ground_inside_the_picture(scenes: list[render.Scene]) -> None:
    for scene in scenes:
        points = scene.surface.points
        assert points[2].min() == pytest.approx(0, abs=1e-6)
        reach = np.sqrt(((points - scene.middle[:, None]) ** 2).sum(axis=0)).max()
        # A ball of this radius, seen in perspective, is inside the frame.
        assert reach * 1.02 * render.PIXELS < render.SIZE / 2


def test_the_six_lightings_differ(scenes: list[render.Scene]) -> None:
    for scene in scenes:
        pictures = _pictures(scene)[:, 0]
        apart = np.abs(pictures[:, None] - pictures[None]).mean(axis=(2, 3))
        assert apart[~np.eye(6, dtype=bool)].min() > 4
        assert 60 < pictures.mean() < 220
        assert (pictures == 255).mean() < 0.1


def test_shadows_fall_on_the_ground(scenes: list[render.Scene]) -> None:
    left = _pictures(scenes[3])[1, 0]
    border = np.concatenate([left[0], left[-1], left[:, 0], left[:, -1]])
    assert left.min() < 0.75 * np.median(border)


def test_the_eyes_see_a_plausible_disparity(scenes: list[render.Scene]) -> None:
    scene = scenes[1]
    q = scene.surface.points - scene.middle[:, None]
    places, heights, depths = [], [], []
    for eye in (0, 1):
        towards, right, up, far = render.look(70, 30, eye)
        depths.append((q * towards[:, None]).sum(axis=0))
        scale = render.PIXELS * far / (far - depths[-1])
        places.append((q * right[:, None]).sum(axis=0) * scale)
        heights.append((q * up[:, None]).sum(axis=0) * scale)
    shift = places[0] - places[1]
    assert 1 < shift.max() < 8
    assert -8 < shift.min() < -1
    assert np.corrcoef(shift, depths[0])[0, 1] > 0.95, "what is nearer lies farther right for the left eye"
    assert np.abs(heights[0] - heights[1]).max() < 0.5

    left, right_eye = _pictures(scene)[0]
    assert 0.5 < np.abs(left - right_eye).mean() < 25
    # Cropped to the middle, no vertical shift explains the pair better than none.
    errors = {
        dy: np.abs(np.roll(left, dy, axis=0) - right_eye)[8:-8, 8:-8].mean() for dy in (-2, -1, 0, 1, 2)
    }
    assert min(errors, key=errors.__getitem__) == 0


def test_the_camera_moves_and_not_the_picture(scenes: list[render.Scene]) -> None:
    views = [_pictures(scenes[4], azimuth)[0, 0] for azimuth in (0, 20, 90)]
    assert np.abs(views[0] - views[2]).mean() > np.abs(views[0] - views[1]).mean() > 2
    assert np.abs(views[0] - np.rot90(views[2])).mean() > 2


def test_the_pictures_are_the_recorded_ones_on_any_machine(scenes: list[render.Scene]) -> None:
    for scene, blocks in zip(scenes, RECORDED, strict=True):
        left = _pictures(scene)[0, 0]
        means = left.reshape(4, 12, 4, 12).mean(axis=(1, 3))
        np.testing.assert_allclose(means, blocks, atol=0.5)
