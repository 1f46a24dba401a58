"""Ink in a standard form: digits of the test set, and a slanted bar whose slant is known."""

import pytest
import torch

import capsnet
from capsnet.data import load_dataset
from capsnet.layers import EvenInk


def slanted(slant, width=3, size=28):
    """A bar through the middle that leans by `slant` pixels per pixel down."""
    y, x = torch.meshgrid(torch.arange(size).float(), torch.arange(size).float(), indexing="ij")
    bar = (1 - ((x - size / 2 - slant * (y - size / 2)).abs() - width / 2).clamp(0, 1)).clamp(0, 1)
    return (bar * ((y > 5) & (y < 23)))[None, None]


def slant_of(images):
    ink = images[:, 0]
    y, x = (torch.arange(28.0)[:, None], torch.arange(28.0))
    mass = ink.sum(dim=(1, 2), keepdim=True)
    down, across = ((p - (ink * p).sum(dim=(1, 2), keepdim=True) / mass) for p in (y, x))
    return (ink * across * down).sum(dim=(1, 2)) / (ink * down.square()).sum(dim=(1, 2))


def width_of(images):
    ink = images[:, 0] > 0.1 * images.amax(dim=(1, 2, 3))[:, None, None]
    columns = ink.any(dim=1)
    return columns.sum(dim=1)


@pytest.fixture(scope="module")
def digits():
    data = load_dataset("mnist")
    return data.preprocessing.apply(data.test.images[:64])


@pytest.mark.parametrize("slant", [-0.6, 0.0, 0.4])
def test_a_bar_is_set_upright(slant):
    made = EvenInk(deskew=True)(slanted(slant))
    assert abs(float(slant_of(made))) < 0.02
    assert (made - slanted(0.0)).abs().mean() < 0.03


def test_digits_lose_their_slant_and_keep_their_place(digits):
    made = EvenInk(deskew=True)(digits)
    assert slant_of(digits).abs().mean() > 0.1
    assert slant_of(made).abs().mean() < 0.03
    assert (made.sum(dim=(1, 2, 3)) / digits.sum(dim=(1, 2, 3)) - 1).abs().max() < 0.1


def test_digits_get_the_width_unless_they_are_far_from_it(digits):
    before, after = width_of(digits), width_of(EvenInk(width=14)(digits))
    near = (before >= 9) & (before <= 26)
    assert near.sum() > 40
    assert ((after[near] - 14).abs() <= 2).all()
    assert (after <= 2 * before + 2).all()  # a stretch of two at most


def test_what_is_already_so_stays_the_same(digits):
    torch.testing.assert_close(EvenInk()(digits), digits)


@pytest.mark.parametrize("options", [{"deskew": True}, {"width": 12}, {"deskew": True, "width": 18}])
def test_blank_images_stay_blank_and_an_image_is_made_alone(options, digits):
    layer = EvenInk(**options)
    assert torch.equal(layer(torch.zeros(2, 1, 28, 28)), torch.zeros(2, 1, 28, 28))
    torch.testing.assert_close(layer(digits)[3:4], layer(digits[3:4]))


def test_the_network_takes_it_as_an_option(digits):
    torch.manual_seed(0)
    plain = capsnet.create_model("efficient_capsnet").eval()
    torch.manual_seed(0)
    even = capsnet.create_model("efficient_capsnet", deskew=True, ink_width=14).eval()
    assert plain.state_dict().keys() == even.state_dict().keys()
    expected = plain(EvenInk(deskew=True, width=14)(digits)).scores
    torch.testing.assert_close(even(digits).scores, expected)
    assert not torch.allclose(plain(digits).scores, expected)
