"""The real images that an export is judged by, and those that int8 is calibrated on.

Letters: N images, C x H x W image.
"""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from capsnet.data import get_dataset_info, load_dataset
from capsnet.data.base import DataSet
from capsnet.errors import CapsNetError
from capsnet.models.base import CapsuleModel
from capsnet.train.prepare import check_fits

PARITY_IMAGES = 256
CALIBRATION_IMAGES = 512


def find_dataset(
    model: CapsuleModel, weights: str, name: str | None = None, data_dir: Path | None = None
) -> tuple[DataSet | None, str]:
    """The data set asked for, which must be there, or else the weights' own if it is; and why not, if not."""
    if name is not None:
        dataset = load_dataset(name, data_dir=data_dir)
        check_fits(model, dataset, weights)
        return dataset, ""
    own = model.card.provenance.get("dataset")
    if own is None:
        return None, "the weights don't say what they were trained on"
    try:
        if get_dataset_info(own).find(data_dir) is None:
            return None, f"the data set '{own}' is not on this machine"
        dataset = load_dataset(own, data_dir=data_dir)
        check_fits(model, dataset, weights)
    except CapsNetError as error:
        return None, str(error).rstrip(".")
    return dataset, ""


def parity_images(
    model: CapsuleModel, dataset: DataSet | None, why_not: str
) -> tuple[Float[Tensor, "n c h w"], str]:
    """Test images, or random ones where there are none, and a word on which they are."""
    if dataset is None:
        generator = torch.Generator().manual_seed(0)
        return torch.rand(PARITY_IMAGES, *model.image_shape, generator=generator), f"random, since {why_not}"
    rows = torch.arange(min(PARITY_IMAGES, len(dataset.test.labels)))
    batch = next(dataset.evaluation_batches(dataset.test.select(rows), PARITY_IMAGES))
    return batch.images[:PARITY_IMAGES], f"{dataset.name} test"


def calibration_images(dataset: DataSet) -> Float[Tensor, "n c h w"]:
    """Training images without augmentation, drawn from a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randperm(len(dataset.train.labels), generator=generator)[:CALIBRATION_IMAGES]
    return dataset.training_batch(dataset.train.select(rows), "none", generator).images
