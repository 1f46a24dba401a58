"""Objects seen from known viewpoints (smallNORB, toyviews, ETH-80, COIL-100): which images train, and which test.

Two questions, two options of these data sets. `objects`: "new" tests on objects that are not in the training set, "same" on
the training objects. `views`: without it every viewpoint is on both sides; "azimuth" and "elevation" train on familiar
viewpoints only and test on the novel ones, as Hinton et al. 2018 do; "azimuth_familiar" and "elevation_familiar" test the
same training on the familiar viewpoints, so that systems can be compared where they are equally good on those.

Familiar azimuths are a third of the circle about the front, from -60 degrees to below 60; familiar elevations are those up to
40 degrees. On smallNORB these are Hinton's six azimuths and three elevations.

Letters: N images.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from capsnet.data.base import DataSet, Split
from capsnet.errors import CapsNetError, unknown_name

FAMILIAR_AZIMUTHS = (-60, 60)
HIGHEST_FAMILIAR_ELEVATION = 40
PROTOCOLS = ("azimuth", "azimuth_familiar", "elevation", "elevation_familiar")


class Views(NamedTuple):
    """What each image shows and from where. Angles are in degrees; `objects` are numbers that no two objects share."""

    objects: Int[Tensor, "n"]
    elevation: Int[Tensor, "n"]
    azimuth: Int[Tensor, "n"]
    lighting: Int[Tensor, "n"]

    def select(self, rows: Int[Tensor, "m"]) -> "Views":
        """Return the given rows, in the given order."""
        return Views(*(column[rows] for column in self))


@dataclass(frozen=True)
class ViewDataSet(DataSet):
    """A data set whose images have known viewpoints."""

    train_views: Views | None = None
    test_views: Views | None = None


def norb_views(labels: Int[Tensor, "n"], info: Int[Tensor, "n 4"]) -> Views:
    """Read smallNORB's info: instance 0..9 of its category, elevation 0..8, azimuth in tens of degrees, lighting."""
    instance, elevation, azimuth, lighting = info.unbind(dim=1)
    return Views(10 * labels + instance, 30 + 5 * elevation, 10 * azimuth, lighting)


def choose_protocol(data: ViewDataSet, objects: str = "new", views: str | None = None) -> ViewDataSet:
    """Keep the training and test images of a protocol; as it comes, a data set tests on new objects from all viewpoints."""
    if objects not in ("new", "same"):
        raise unknown_name("choice of objects", objects, ("new", "same"))
    if views is not None and views not in PROTOCOLS:
        raise unknown_name("viewpoint protocol", views, PROTOCOLS)
    factor, _, familiar_test = (views or "").partition("_")
    if objects == "same":
        if not factor or familiar_test:
            raise CapsNetError(
                f"'{data.name}' with objects=same needs views=azimuth or views=elevation: "
                "otherwise it would be tested on its training images."
            )
        data = pool(data)
    if views is None:
        return data
    assert data.train_views is not None
    assert data.test_views is not None
    train, test = (is_familiar(side, factor) for side in (data.train_views, data.test_views))
    return keep(data, train, test if familiar_test else ~test)


def is_familiar(views: Views, factor: str) -> Bool[Tensor, "n"]:
    """Return which images are seen from a familiar "azimuth" or "elevation"."""
    if factor == "elevation":
        return views.elevation <= HIGHEST_FAMILIAR_ELEVATION
    first, after_last = FAMILIAR_AZIMUTHS
    return (views.azimuth - first) % 360 < after_last - first


def pool(data: ViewDataSet) -> ViewDataSet:
    """Make one set of training and test images, and use it as both."""
    assert data.train_views is not None
    assert data.test_views is not None
    both = Split(*(torch.cat(pair) for pair in zip(data.train, data.test, strict=True)))
    views = Views(*(torch.cat(pair) for pair in zip(data.train_views, data.test_views, strict=True)))
    groups = {"objects": views.objects}
    return replace(data, train=both, test=both, train_views=views, test_views=views, groups=groups)


def keep(data: ViewDataSet, train: Bool[Tensor, "n"], test: Bool[Tensor, "m"]) -> ViewDataSet:
    """Keep some of the training and some of the test images; there must be some of each."""
    assert data.train_views is not None
    assert data.test_views is not None
    for side, rows in (("training", train), ("test", test)):
        if not bool(rows.any()):
            raise CapsNetError(f"'{data.name}' has no {side} images from these viewpoints.")
    training, testing = (rows.nonzero().flatten() for rows in (train, test))
    return replace(
        data,
        train=data.train.select(training),
        test=data.test.select(testing),
        train_views=data.train_views.select(training),
        test_views=data.test_views.select(testing),
        groups={name: groups[training] for name, groups in data.groups.items()},
    )
