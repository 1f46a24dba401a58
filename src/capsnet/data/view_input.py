"""What a network gets of pictures of objects from known viewpoints: pre-processing and augmentation.

"paper" (Mazzia et al. 2021): standardise each channel by the training set, resize to 4/3 of the image size (96 -> 64), train on
random crops (48x48) with a brightness shift U(-2, 2) and a contrast factor U(0.5, 1.5) about each channel's mean; test on the
centre crop.
"hinton" (Hinton et al. 2018): resize to 3/2 (48), brightness +-63/255, contrast 0.2..1.8, random crop (32x32), then standardise
each image.
"whole": for pictures that their object fills. Resize the whole picture, standardise each channel; train with small shifts,
zooms and changes of brightness and contrast.

Letters: N images, B batch, C x H x W image.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float, UInt8
from torch import Generator, Tensor

from capsnet.data.base import Augmentation, Split
from capsnet.data.compose import Compose
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.viewpoints import ViewDataSet, Views
from capsnet.errors import CapsNetError, unknown_name

IMAGE_SIZES = {"paper": 48, "hinton": 32, "whole": 48}
GENTLE = ("shift", "zoom", "brightness", "contrast")


def stored_size(preprocessing: str, image_size: int | None) -> int:
    """Return the side of the pictures that crops of `image_size` are taken from; the pre-processing's own size when None."""
    if preprocessing not in IMAGE_SIZES:
        raise unknown_name("pre-processing", preprocessing, IMAGE_SIZES)
    size = IMAGE_SIZES[preprocessing] if image_size is None else image_size
    if not 20 <= size <= 256:
        raise CapsNetError(f"An image size is 20 to 256 pixels, not {size}.")
    return {"paper": size * 4 // 3, "hinton": size * 3 // 2, "whole": size}[preprocessing]


def make_view_dataset(
    name: str,
    class_names: Sequence[str],
    train: Split,
    test: Split,
    train_views: Views,
    test_views: Views,
    *,
    preprocessing: str = "paper",
    image_size: int | None = None,
    digests: dict[str, str] | None = None,
) -> ViewDataSet:
    """Make the set with one of the pre-processings above and its augmentation."""
    side = stored_size(preprocessing, image_size)
    crop = image_size or IMAGE_SIZES[preprocessing]
    mean, std = channel_statistics(train.images)
    prepare = Preprocessing("picture", 255.0, mean, std, resize=(side, side), crop=(crop, crop))
    augmentations: dict[str, Augmentation] = {}
    if preprocessing == "paper":
        augmentations["paper"] = partial(
            vary_view, preprocessing=prepare, brightness=2.0, contrast=(0.5, 1.5), crop_first=True
        )
    elif preprocessing == "hinton":
        prepare = replace(prepare, mean=None, std=None, per_image=True)
        augmentations["hinton"] = partial(
            vary_view, preprocessing=prepare, brightness=63 / 255, contrast=(0.2, 1.8)
        )
    else:
        prepare = replace(prepare, crop=None)
        augmentations[",".join(GENTLE)] = Compose(GENTLE, prepare)
    return ViewDataSet(
        name=name,
        train=train,
        test=test,
        class_names=tuple(class_names),
        preprocessing=prepare,
        image_shape=(train.images.shape[1], crop, crop),
        augmentations=augmentations,
        digests=digests or {},
        groups={"objects": train_views.objects},
        train_views=train_views,
        test_views=test_views,
    )


def vary_view(
    images: UInt8[Tensor, "b c h0 w0"],
    generator: Generator,
    *,
    preprocessing: Preprocessing,
    brightness: float,
    contrast: tuple[float, float],
    crop_first: bool = False,
) -> Float[Tensor, "b c h w"]:
    """A random crop with random brightness and contrast, the same for both eyes; contrast is about each channel's mean."""
    b, device = len(images), generator.device
    amount = torch.rand(b, 2, generator=generator, device=device)
    place = torch.rand(b, 2, generator=generator, device=device)
    x = preprocessing.resized(images)
    if crop_first:
        x = random_crop(x, preprocessing.crop, place)
    shift = (2 * amount[:, 0] - 1) * brightness
    factor = contrast[0] + (contrast[1] - contrast[0]) * amount[:, 1]
    mean = x.mean(dim=(2, 3), keepdim=True)
    x = (x - mean) * factor.view(b, 1, 1, 1) + (mean + shift.view(b, 1, 1, 1))
    if not crop_first:
        x = random_crop(x, preprocessing.crop, place)
    return preprocessing.finish(x)


def random_crop(
    x: Float[Tensor, "b c h0 w0"], size: tuple[int, int] | None, place: Float[Tensor, "b 2"]
) -> Float[Tensor, "b c h w"]:
    """A crop for each image, `place` in [0, 1) from the top and the left."""
    if size is None:
        return x
    b, _, height, width = x.shape
    top = (place[:, :1] * (height - size[0] + 1)).long()
    left = (place[:, 1:] * (width - size[1] + 1)).long()
    rows = top + torch.arange(size[0], device=x.device)
    columns = left + torch.arange(size[1], device=x.device)
    batch = torch.arange(b, device=x.device)[:, None, None]
    return x.movedim(1, -1)[batch, rows[:, :, None], columns[:, None]].movedim(-1, 1).contiguous()


def channel_statistics(images: UInt8[Tensor, "n c h w"]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel, of pixels / 255, exact: from a histogram, some images at a time."""
    counts = torch.zeros(images.shape[1], 256, dtype=torch.float64)
    for part in images.split(500):
        for channel in range(images.shape[1]):
            counts[channel] += torch.histc(part[:, channel].float(), 256, 0, 256).double()
    levels = torch.arange(256, dtype=torch.float64) / 255
    share = counts / counts.sum(dim=1, keepdim=True)
    mean = (share * levels).sum(dim=1)
    std = (share * (levels - mean[:, None]).square()).sum(dim=1).sqrt()
    return tuple(mean.tolist()), tuple(std.clamp_min(1e-6).tolist())
