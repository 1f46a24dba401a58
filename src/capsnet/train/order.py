"""Which images a training epoch shows, and in which order: a function of the seed and the epoch's number.

Letters: N images, J classes.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from capsnet.train.randomness import generator


def epoch_order(seed: int, epoch: int, images: int, views: int) -> Int[Tensor, "n"]:
    """Return the indices of all images, each `views` times, in an order of this epoch's own."""
    order = torch.randperm(images * views, generator=generator(seed, "order", epoch))
    return order % images


def balanced_order(seed: int, epoch: int, labels: Int[Tensor, "n"], views: int) -> Int[Tensor, "m"]:
    """Return as many indices as `epoch_order`, with every class equally often, to within one image.

    Images of a small class come several times, each equally often to within one; of a large class come some.
    """
    drawing = generator(seed, "order", epoch)
    labels = labels.cpu()
    present = labels.unique()
    total = len(labels) * views
    one_more = torch.randperm(len(present), generator=drawing) < total % len(present)
    drawn = []
    for label, more in zip(present.tolist(), one_more.tolist(), strict=True):
        members = torch.nonzero(labels == label).flatten()
        count = total // len(present) + more
        rounds = [torch.randperm(len(members), generator=drawing) for _ in range(-(-count // len(members)))]
        drawn.append(members[torch.cat(rounds)[:count]])
    order = torch.cat(drawn)
    return order[torch.randperm(total, generator=drawing)]
