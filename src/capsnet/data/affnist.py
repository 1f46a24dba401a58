"""affNIST-style digits, generated: train on MNIST placed anywhere on 40x40, test under affine maps never seen in training.

The original affNIST (Tieleman 2013) is MNIST under random rotation of up to 20 degrees, shear up to 0.2, scale 0.8 to 1.2
on each axis, and any translation that keeps the ink inside. The test set here is made so from MNIST's, from a fixed seed; it
is not the original's files, and is called generated wherever it is reported. Training images move (`place`), no more.

| split | images | classes | pixels  |
|-------|--------|---------|---------|
| train | 60,000 | 10      | 1x40x40 |
| test  | 10,000 | 10      | 1x40x40 |
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from capsnet.data.mnist import BUNDLED, CLASS_NAMES, mnist
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.registry import register_dataset

if TYPE_CHECKING:
    import torch

    from capsnet.data.base import DataSet

SIDE = 40
SEED = 2013
MAX_DEGREES, MAX_SHEAR, SCALES = 20.0, 0.2, (0.8, 1.2)
PREPROCESSING = Preprocessing(kind="digit", divisor=256.0, light_on_dark=True)


@register_dataset(
    train_images=60_000,
    test_images=10_000,
    image_shape=(1, SIDE, SIDE),
    class_names=CLASS_NAMES,
    licence="CC BY-SA 3.0",
    find=lambda data_dir: BUNDLED,
)
def affnist(data_dir: Path | None = None) -> "DataSet":
    """Digits under affine maps, generated from MNIST; trained on translations only."""
    from functools import partial

    from torch.nn import functional as F

    from capsnet.data.augmentation import shift
    from capsnet.data.base import DataSet, Split

    digits = mnist(data_dir)
    margin = (SIDE - 28) // 2
    # Stored in the middle; a shift of up to the margin puts the 28x28 field anywhere on the canvas.
    train = Split(F.pad(digits.train.images, (margin,) * 4), digits.train.labels)
    test = Split(transform(digits.test.images, SEED), digits.test.labels)
    return DataSet(
        name="affnist",
        train=train,
        test=test,
        class_names=CLASS_NAMES,
        preprocessing=PREPROCESSING,
        image_shape=(1, SIDE, SIDE),
        augmentations={"place": partial(shift, pixels=margin)},
        digests=digits.digests,
        groups=digits.groups,
    )


def transform(images: "torch.Tensor", seed: int) -> "torch.Tensor":
    """uint8 (N, 1, H, W) -> uint8 (N, 1, 40, 40), each under its own affine map with all its ink inside."""
    import torch

    from capsnet.data.warp import ink_extent, rotation, scaling, shearing, warp

    generator = torch.Generator().manual_seed(seed)
    made = []
    for part in images.split(1000):
        u = torch.rand(len(part), 6, generator=generator)
        turn = rotation((2 * u[:, 0] - 1) * math.radians(MAX_DEGREES))
        shear = shearing((2 * u[:, 1] - 1) * MAX_SHEAR)
        low, high = SCALES
        scale = scaling(low + (high - low) * u[:, 2], low + (high - low) * u[:, 3])
        matrix = turn @ shear @ scale
        extent = ink_extent(part[:, 0] > 0, matrix)
        least, most = -SIDE / 2 - extent[:, :, 0], SIDE / 2 - extent[:, :, 1]
        # Ink that is larger than the canvas is centred.
        middle = (least + most) / 2
        translation = torch.where(least < most, least + (most - least) * u[:, 4:], middle)
        moved = warp(part.float(), matrix, translation, (SIDE, SIDE), mode="bicubic")
        made.append(moved.clamp(0, 255).round().to(torch.uint8))
    return torch.cat(made)
