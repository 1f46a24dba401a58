"""Digits varied as hands vary them stay the digits they were."""

import pytest
import torch
from torch import Generator, Tensor

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


def test_thickness_adds_and_removes_ink(images: Tensor) -> None:
    plain = images / 256
    amounts = [
        handwriting._thickness(plain, torch.full((500,), a)).sum(dim=(1, 2, 3)) for a in (-1.0, 0.0, 1.0)
    ]
    assert (amounts[0] < amounts[1]).all()
    assert (amounts[1] < amounts[2]).all()


def test_a_trained_network_still_reads_nearly_all_of_them(images: Tensor) -> None:
    model = capsnet.load("efficient_capsnet.mnist")
    with torch.inference_mode():
        said = model(handwriting.handwriting(images, seeded())).scores.argmax(dim=1)
    assert float((said == load_dataset("mnist").train.labels[:500]).float().mean()) > 0.97
