"""Which images a training epoch shows, and in which order: a function of the seed and the epoch's number."""

import torch
from jaxtyping import Int
from torch import Tensor

from capsnet.train.randomness import generator


def epoch_order(seed: int, epoch: int, images: int, views: int) -> Int[Tensor, "n"]:
    """Return the indices of all images, each `views` times, in an order of this epoch's own."""
    order = torch.randperm(images * views, generator=generator(seed, "order", epoch))
    return order % images
