"""The factorial design, which is smallNORB's: every instance from every side under every lighting, once.

info rows are smallNORB's: instance 0..9, elevation 0..8, azimuth 0, 2, .. 34 (tens of degrees), lighting
0..5. A split runs through lightings, then views, then instances, the category changing fastest, as in
smallNORB's files: any stretch of it is balanced.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsnet.data.toyviews import shapes
from capsnet.data.toyviews.render import LIGHTINGS, SIZE

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Design:
    """The whole set by default; tests make a few small views with other numbers."""

    elevations: tuple[int, ...] = tuple(range(9))
    azimuths: tuple[int, ...] = tuple(range(0, 36, 2))
    instances: int = 5  # a category and split
    size: int = SIZE

    @property
    def views(self) -> int:
        return len(self.elevations) * len(self.azimuths)

    @property
    def pairs(self) -> int:
        """Stereo pairs in a split."""
        return len(shapes.CATEGORIES) * self.instances * self.views * len(LIGHTINGS)

    @property
    def part_shape(self) -> tuple[int, ...]:
        """One instance: its views, lightings and eyes."""
        return (self.views, len(LIGHTINGS), 2, self.size, self.size)

    def lot(self, split: str, category: int, *, seed: int) -> list[int]:
        return shapes.lots(category, seed=seed)[SPLITS.index(split)][: self.instances]

    def members(self, *, seed: int) -> list[tuple[int, int]]:
        """(category, instance) of everything to be rendered."""
        return [
            (category, instance)
            for split in SPLITS
            for category in range(len(shapes.CATEGORIES))
            for instance in self.lot(split, category, seed=seed)
        ]


def elevation_degrees(index: int) -> float:
    return 30.0 + 5.0 * index


def azimuth_degrees(index: int) -> float:
    return 10.0 * index


def factors(design: Design, split: str, *, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """labels (n,) and info (n, 4) of a split, in the order of its images."""
    count = len(shapes.CATEGORIES)
    grid = (design.instances, len(design.elevations), len(design.azimuths), len(LIGHTINGS), count)
    slot, elevation, azimuth, lighting, category = (axis.ravel() for axis in np.indices(grid))
    lots = np.array([design.lot(split, c, seed=seed) for c in range(count)])
    columns = (
        lots[category, slot],
        np.array(design.elevations)[elevation],
        np.array(design.azimuths)[azimuth],
        lighting,
    )
    return category.astype(np.uint8), np.stack(columns, axis=1).astype(np.uint8)
