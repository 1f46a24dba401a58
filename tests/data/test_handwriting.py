"""Digits varied as hands vary them stay the digits they were."""

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

import capsnet
from capsnet.data import handwriting, load_dataset


def seeded() -> Generator:
    return Generator().manual_seed(0)


@pytest.fixture(scope="module")
def images() -> Tensor:
    return load_dataset("mnist").train.images[:500]


def test_with_all_amounts_at_zero_nothing_changes(images: Tensor) -> None:
    still = handwriting.Amounts(*[0.0] * len(handwriting.Amounts._fields))
    varied = handwriting.handwriting(images, seeded(), still)
    torch.testing.assert_close(varied, images / 256, atol=1e-4, rtol=0)


def test_displacements_between_knots_are_bicubic() -> None:
    knots = torch.randn(3, 2, handwriting.KNOTS, handwriting.KNOTS)
    ours = handwriting._between_knots(28) @ knots @ handwriting._between_knots(20).T
    expected = F.interpolate(knots, (28, 20), mode="bicubic", align_corners=True)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def test_the_neighbourhood_is_that_of_pooling() -> None:
    images = torch.rand(4, 1, 9, 7)
    assert torch.equal(handwriting._over_neighbours(images, torch.maximum), F.max_pool2d(images, 3, 1, 1))
    assert torch.equal(handwriting._over_neighbours(images, torch.minimum), -F.max_pool2d(-images, 3, 1, 1))


def test_thickness_adds_and_removes_ink(images: Tensor) -> None:
    plain = images / 256
    amounts = [
        handwriting._thickness(plain, torch.full((500,), a)).sum(dim=(1, 2, 3)) for a in (-1.0, 0.0, 1.0)
    ]
    assert (amounts[0] < amounts[1]).all()
    assert (amounts[1] < amounts[2]).all()


def test_bold_digits_have_more_ink_and_thin_ones_the_same(images: Tensor) -> None:
    gentle, bold = (
        handwriting.handwriting(images, seeded(), amounts).sum(dim=(1, 2, 3))
        for amounts in (handwriting.GENTLE, handwriting.BOLD)
    )
    thicker = bold > gentle + 1e-3
    assert 0.4 < float(thicker.float().mean()) < 0.6
    torch.testing.assert_close(bold[~thicker], gentle[~thicker], atol=2e-3, rtol=0)


def test_a_trained_network_still_reads_nearly_all_of_them(images: Tensor) -> None:
    model = capsnet.load("efficient_capsnet.mnist")
    with torch.inference_mode():
        said = model(handwriting.handwriting(images, seeded())).scores.argmax(dim=1)
    assert float((said == load_dataset("mnist").train.labels[:500]).float().mean()) > 0.97
