"""The real images that an export is tested with, and those that int8 is calibrated on.

Letters: N images, C x H x W image.
"""

import logging
from pathlib import PurePath

import torch
from jaxtyping import Float
from torch import Tensor

from capsnet.data.base import DataSet
from capsnet.errors import CapsNetError
from capsnet.models.base import CapsuleModel
from capsnet.opening import OpenedWeights

PARITY_IMAGES = 256
CALIBRATION_IMAGES = 512

logger = logging.getLogger("capsnet.export")


def find_dataset(opened: OpenedWeights, *, required: bool) -> tuple[DataSet | None, str]:
    """Return the data set of opened weights, or the reason why there is none; nothing is downloaded unless it is required."""
    if not required and opened.trained_on is None:
        return None, "the weights don't say what they were trained on"
    try:
        if not required and not opened.data_is_here:
            return None, f"the data set '{PurePath(opened.dataset_name).name}' is not on this machine"
        return opened.dataset, ""
    except CapsNetError as error:
        if required:
            raise
        logger.warning("%s", error)
        # The card repeats this reason, and must not name paths of this machine.
        return None, "the weights' own data set cannot be used here"


def parity_images(
    model: CapsuleModel, dataset: DataSet | None, why_not: str
) -> tuple[Float[Tensor, "n c h w"], str]:
    """Return test images, or random ones without a data set, and where they come from."""
    if dataset is None:
        generator = torch.Generator().manual_seed(0)
        return torch.rand(PARITY_IMAGES, *model.image_shape, generator=generator), f"random, since {why_not}"
    rows = torch.arange(min(PARITY_IMAGES, len(dataset.test.labels)))
    batch = next(dataset.evaluation_batches(dataset.test.select(rows), PARITY_IMAGES))
    return batch.images[:PARITY_IMAGES], f"{PurePath(dataset.name).name} test"


def calibration_images(dataset: DataSet, count: int = CALIBRATION_IMAGES) -> Float[Tensor, "n c h w"]:
    """Draw training images from a fixed seed, without augmentation."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randperm(len(dataset.train.labels), generator=generator)[:count]
    return dataset.training_batch(dataset.train.select(rows), "none", generator).images
