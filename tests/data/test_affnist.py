"""affNIST-style digits: all ink on the canvas, the specified ranges, the same set every time."""

import math

import pytest
import torch
from torch import Generator, Tensor

from capsnet.data import load_dataset
from capsnet.data.affnist import transform
from capsnet.data.base import DataSet
from capsnet.data.warp import ink_extent, rotation, scaling, shearing, warp

MEAN = 16.6707


@pytest.fixture(scope="module")
def affnist() -> DataSet:
    return load_dataset("affnist")


@pytest.fixture(scope="module")
def digits() -> Tensor:
    return load_dataset("mnist").test.images


def test_counts_shapes_and_labels(affnist: DataSet) -> None:
    assert affnist.train.images.shape == (60_000, 1, 40, 40)
    assert affnist.test.images.shape == (10_000, 1, 40, 40)
    assert affnist.test.images.dtype == torch.uint8
    assert affnist.test.labels.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_the_test_set_is_the_same_every_time(affnist: DataSet, digits: Tensor) -> None:
    again = transform(digits[:1000], 2013)
    assert torch.equal(again, affnist.test.images[:1000])
    assert not torch.equal(transform(digits[:1000], 1), again)
    assert float(affnist.test.images.double().mean()) == pytest.approx(MEAN, rel=1e-4)


def test_all_ink_stays_on_the_canvas(affnist: DataSet, digits: Tensor) -> None:
    """Area scales with the determinant, 0.64 to 1.44; lost ink would go below it."""
    before = digits.double().sum(dim=(1, 2, 3))
    ratio = affnist.test.images.double().sum(dim=(1, 2, 3)) / before
    assert float(ratio.min()) > 0.6
    assert float(ratio.max()) < 1.6
    assert float(ratio.mean()) == pytest.approx(1.0, abs=0.03)


def test_digits_reach_every_side(affnist: DataSet) -> None:
    ink = (affnist.test.images[:, 0] > 32).any(dim=0)
    assert bool(ink[2:-2, 2:-2].all())


def test_training_moves_the_whole_field_anywhere_and_does_nothing_else(affnist: DataSet) -> None:
    images = affnist.train.images[:300]
    batch = affnist.training_batch(
        affnist.train.select(torch.arange(300)), "place", Generator().manual_seed(0)
    )
    sorted_pixels = [x.flatten(1).sort(dim=1).values for x in (batch.images, images / 256)]
    assert torch.equal(*sorted_pixels)
    place = torch.arange(40.0)
    centres = (batch.images.sum(dim=2)[:, 0] * place).sum(dim=1) / batch.images.sum(dim=(1, 2, 3))
    assert float(centres.max() - centres.min()) > 11


def test_warp_by_the_identity_and_by_whole_pixels() -> None:
    images = torch.rand(2, 3, 10, 12)
    eye = torch.eye(2).expand(2, 2, 2)
    torch.testing.assert_close(warp(images, eye, torch.zeros(2, 2), (10, 12)), images, atol=1e-5, rtol=0)
    moved = warp(images, eye, torch.tensor([[2.0, 1.0]]).expand(2, 2), (10, 12))
    torch.testing.assert_close(moved[..., 1:, 2:], images[..., :-1, :-2], atol=1e-5, rtol=0)
    larger = warp(images, eye, torch.zeros(2, 2), (14, 16))
    torch.testing.assert_close(larger[..., 2:12, 2:14], images, atol=1e-5, rtol=0)


def test_quarter_turn_mirror_and_shear_go_where_they_should() -> None:
    images = torch.rand(1, 1, 9, 9)
    still = torch.zeros(1, 2)
    turned = warp(images, rotation(torch.tensor([math.pi / 2])), still, (9, 9))
    torch.testing.assert_close(turned, images.rot90(-1, (2, 3)), atol=1e-5, rtol=0)
    mirrored = warp(images, scaling(torch.tensor([-1.0]), torch.tensor([1.0])), still, (9, 9))
    torch.testing.assert_close(mirrored, images.flip(3), atol=1e-5, rtol=0)
    sheared = warp(images, shearing(torch.tensor([1.0])), still, (9, 9))
    torch.testing.assert_close(sheared[0, 0, 5, 1:], images[0, 0, 5, :-1], atol=1e-5, rtol=0)


def test_extent_of_one_pixel_and_of_none() -> None:
    ink = torch.zeros(2, 5, 5, dtype=torch.bool)
    ink[0, 1, 4] = True
    extent = ink_extent(ink, torch.eye(2).expand(2, 2, 2))
    assert extent[0].tolist() == [[1, 3], [-2, 0]]
    assert torch.isfinite(extent).all()
