"""Figures show pictures as people know them: ink on white, photographs neither negative nor grey, animations in colour."""

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image

from capsnet.analysis import perturb
from capsnet.analysis.subject import Subject
from capsnet.data import load_dataset
from capsnet.data.base import DataSet, Split
from capsnet.data.preprocessing import Preprocessing


def looked_at(images, preprocessing) -> Subject:
    """A subject without weights, for a data set of these stored images."""
    split = Split(images, torch.zeros(len(images), dtype=torch.long))
    subject = object.__new__(Subject)
    subject.dataset = DataSet("mine", split, split, ("a", "b"), preprocessing, tuple(images.shape[1:]))
    return subject


@pytest.mark.parametrize(
    "preprocessing",
    [
        Preprocessing(),
        Preprocessing(mean=(0.4, 0.5, 0.6), std=(0.1, 0.2, 0.3)),
        Preprocessing(divisor=256.0),
    ],
)
def test_photographs_are_shown_as_they_were_stored(preprocessing):
    stored = torch.randint(0, 256, (4, 3, 6, 5)).to(torch.uint8)
    shown = looked_at(stored, preprocessing).shown(preprocessing.apply(stored))
    np.testing.assert_allclose(shown * 255, stored.numpy(), atol=1e-3)


def test_grey_photographs_are_no_negatives_and_pairs_are_side_by_side():
    stored = torch.randint(0, 256, (2, 2, 4, 4)).to(torch.uint8)
    shown = looked_at(stored, Preprocessing()).shown(Preprocessing().apply(stored))
    assert shown.shape == (2, 3, 4, 8)
    np.testing.assert_allclose(shown[0, 1, :, 4:] * 255, stored[0, 1].numpy(), atol=1e-3)


def test_digits_are_dark_on_white():
    mnist = load_dataset("mnist")
    shown = looked_at(mnist.test.images[:5], mnist.preprocessing).shown(torch.zeros(1, 1, 28, 28))
    assert shown.min() == 1


def test_images_standardised_one_by_one_use_the_whole_range():
    stored = torch.randint(0, 200, (3, 1, 6, 6)).to(torch.uint8)
    prepared = dataclasses.replace(Preprocessing(), per_image=True)
    shown = looked_at(stored, prepared).shown(prepared.apply(stored))
    assert shown.min() == 0
    assert shown.max() == pytest.approx(1)


def test_the_animation_of_colour_pictures_is_in_colour(tmp_path):
    pictures = np.zeros((2, 3, 3, 8, 8), dtype=np.float32)
    pictures[:, :, 0] = 1
    path = perturb.animate(pictures, [0, 1], tmp_path / "a.gif")
    with Image.open(path) as animation:
        colours = np.asarray(animation.convert("RGB")).reshape(-1, 3)
    assert ((colours[:, 0] > 200) & (colours[:, 1] < 50)).any(), "red"
