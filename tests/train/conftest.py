"""A slice of MNIST under a name of its own, so that a run's test takes a moment."""

import dataclasses

import torch

from capsnet.data.mnist import BUNDLED, mnist
from capsnet.data.registry import register_dataset


@register_dataset(
    train_images=2000,
    test_images=200,
    image_shape=(1, 28, 28),
    class_names=tuple("0123456789"),
    licence="CC BY-SA 3.0",
    find=lambda data_dir: BUNDLED,
)
def sliced_mnist(data_dir=None):
    """The first images of MNIST."""
    whole = mnist(data_dir)
    train, test = whole.train.select(torch.arange(2000)), whole.test.select(torch.arange(200))
    groups = {"writers": whole.groups["writers"][:2000]}
    return dataclasses.replace(whole, name="sliced_mnist", train=train, test=test, groups=groups)
