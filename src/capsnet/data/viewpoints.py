"""Data sets of objects seen from known viewpoints (smallNORB, toyviews): pre-processing, augmentation, novel-view protocols.

Paper (Mazzia et al. 2021): standardise each channel by the training set, resize 96 -> 64, train on random 48x48 crops with a
brightness shift U(-2, 2) and a contrast factor U(0.5, 1.5) about each channel's mean; test on the centre crop.
Hinton et al. 2018: resize to 48, brightness +-63/255, contrast 0.2..1.8, random 32x32 crop, then standardise each image.

Letters: N images, B batch, C x H x W image.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float, Int, UInt8
from torch import Generator, Tensor

from capsnet.data.base import DataSet, Split
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError, unknown_name

CLASS_NAMES = ("animal", "human", "airplane", "truck", "car")
INSTANCE, ELEVATION, AZIMUTH, LIGHTING = range(4)
FAMILIAR_AZIMUTHS = (300, 320, 340, 0, 20, 40)
FAMILIAR_ELEVATIONS = (0, 1, 2)


@dataclass(frozen=True)
class ViewDataSet(DataSet):
    """`train_info` and `test_info` have a row an image: instance, elevation 0..8, azimuth 0, 2, .., 34 (in tens of degrees),
    lighting 0..5."""

    train_info: Int[Tensor, "n 4"] | None = None
    test_info: Int[Tensor, "m 4"] | None = None


def make_view_dataset(
    name: str,
    train: Split,
    test: Split,
    train_info: Int[Tensor, "n 4"],
    test_info: Int[Tensor, "m 4"],
    *,
    preprocessing: str = "paper",
    digests: dict[str, str] | None = None,
) -> ViewDataSet:
    """The set with the paper's or Hinton's pre-processing and augmentation."""
    channels = train.images.shape[1]
    if preprocessing == "paper":
        mean, std = channel_statistics(train.images)
        prepare = Preprocessing("picture", 255.0, mean, std, resize=(64, 64), crop=(48, 48))
        vary = partial(vary_view, preprocessing=prepare, brightness=2.0, contrast=(0.5, 1.5), crop_first=True)
    elif preprocessing == "hinton":
        prepare = Preprocessing("picture", 255.0, resize=(48, 48), crop=(32, 32), per_image=True)
        vary = partial(vary_view, preprocessing=prepare, brightness=63 / 255, contrast=(0.2, 1.8))
    else:
        raise CapsNetError(f"'{name}' has the pre-processings paper and hinton, not '{preprocessing}'.")
    assert prepare.crop is not None
    return ViewDataSet(
        name=name,
        train=train,
        test=test,
        class_names=CLASS_NAMES,
        preprocessing=prepare,
        image_shape=(channels, *prepare.crop),
        augmentations={preprocessing: vary},
        digests=digests or {},
        train_info=train_info,
        test_info=test_info,
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


def novel_views(data: ViewDataSet, factor: str) -> tuple[ViewDataSet, ViewDataSet]:
    """Hinton's protocol: trained on familiar viewpoints only, tested on the familiar ones and on the novel ones.

    Both data sets have the familiar training images; the first tests on familiar views of the test objects, the second on
    novel ones.

    Args:
        factor: "azimuth" (familiar: 300..340 and 0..40 degrees) or "elevation" (familiar: the three lowest).
    """
    if data.train_info is None or data.test_info is None:
        raise CapsNetError(f"'{data.name}' does not say from where its images are seen.")
    train, test = (familiar_views(info, factor) for info in (data.train_info, data.test_info))
    kept = replace(
        data,
        train=data.train.select(train.nonzero().flatten()),
        train_info=data.train_info[train],
    )
    familiar, novel = (
        replace(kept, test=data.test.select(rows.nonzero().flatten()), test_info=data.test_info[rows])
        for rows in (test, ~test)
    )
    return familiar, novel


def choose_views(data: ViewDataSet, views: str | None) -> ViewDataSet:
    """The whole set, or one of the protocols by name: "azimuth" and "elevation" train on familiar viewpoints and test on novel
    ones, "azimuth_familiar" and "elevation_familiar" test the same training on the familiar ones."""
    if views is None:
        return data
    factor, _, which = views.partition("_")
    if factor not in ("azimuth", "elevation") or which not in ("", "familiar"):
        known = ("azimuth", "azimuth_familiar", "elevation", "elevation_familiar")
        raise unknown_name("viewpoint protocol", views, known)
    familiar, novel = novel_views(data, factor)
    return familiar if which else novel


def familiar_views(info: Int[Tensor, "n 4"], factor: str) -> Tensor:
    """Which images are seen from a familiar viewpoint."""
    if factor == "azimuth":
        return torch.isin(info[:, AZIMUTH] * 10, torch.tensor(FAMILIAR_AZIMUTHS))
    if factor == "elevation":
        return torch.isin(info[:, ELEVATION], torch.tensor(FAMILIAR_ELEVATIONS))
    raise CapsNetError(f"Viewpoints differ in azimuth and elevation, not '{factor}'.")
