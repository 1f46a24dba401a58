"""Pairs are made of training digits only, whatever is held out."""

import dataclasses

import torch

from capsnet.cli import main
from capsnet.data.hold_out import hold_out
from capsnet.data.mnist import BUNDLED
from capsnet.data.multimnist import multimnist
from capsnet.data.pairs import PairDataSet
from capsnet.data.registry import register_dataset


@register_dataset(
    train_images=300,
    test_images=20,
    image_shape=(1, 36, 36),
    class_names=tuple("0123456789"),
    licence="CC BY-SA 3.0",
    find=lambda data_dir: BUNDLED,
)
def sliced_multimnist(data_dir=None):
    """Pairs of a few digits."""
    whole = multimnist(data_dir, pairs=1)
    train, test = whole.train.select(torch.arange(300)), whole.test.select(torch.arange(20))
    groups = {"writers": whole.groups["writers"][:300]}
    return dataclasses.replace(
        whole, name="sliced_multimnist", train=train, test=test, groups=groups, views=3
    )


def test_no_pair_has_a_digit_that_is_held_out(tmp_path, monkeypatch):
    data = sliced_multimnist()
    _, held_out = hold_out(data, "writers", fold="1/2")
    digits = {digit.numpy().tobytes() for digit in held_out.images}
    overlay, make_batch, seen = PairDataSet.overlay, PairDataSet.training_batch, []

    def watched_batch(self, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(PairDataSet, "overlay", watched_overlay)
            return make_batch(self, *arguments)

    def watched_overlay(self, digits, shifts):
        seen.extend(digit.numpy().tobytes() for split in digits for digit in split.images)
        return overlay(self, digits, shifts)

    monkeypatch.setattr(PairDataSet, "training_batch", watched_batch)
    # A batch is at most a twentieth of the training images, here one digit.
    words = [
        "--model",
        "base_capsnet",
        "--no-reconstruction",
        "--epochs",
        "1",
        "--limit",
        "20",
        "--hold-out",
        "writers",
    ]
    main(
        [
            "train",
            "sliced_multimnist",
            *words,
            "--fold",
            "1/2",
            "--threads",
            "1",
            "--out",
            str(tmp_path / "run"),
        ]
    )
    assert len(seen) > 100
    assert len(digits) > 20
    assert not digits & set(seen)
