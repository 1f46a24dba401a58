"""Losses: the margin that makes a length a probability, and the reconstruction that makes a pose mean something.

Efficient-CapsNet eq. 7 (= Sabour et al. 2017 eq. 4). The margin loss is summed over classes and averaged over the
batch, so that an image may hold several classes. The reconstruction loss is the mean of the squares where Sabour et
al. sum them: a weight of 0.392 here is their 0.0005 x 784. The spread loss is Hinton et al. 2018's for EM routing (eq. 3), a
mean where they sum, so that neither its size nor the best learning rate depends on the number of classes.

`score_distance` and `pose_distance` are between a network and its teacher. `cross_entropy` is what the networks without
capsules are trained with.

Letters: B batch, J classes.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def margin_loss(
    lengths: Float[Tensor, "b j"], targets: Float[Tensor, "b j"], **margins: float
) -> Float[Tensor, ""]:
    """Eq. 7, the mean over the batch; `margins` as for `margin_losses`."""
    return margin_losses(lengths, targets, **margins).mean()


def margin_losses(
    lengths: Float[Tensor, "b j"],
    targets: Float[Tensor, "b j"],
    *,
    upper: float = 0.9,
    lower: float = 0.1,
    absent_weight: float = 0.5,
) -> Float[Tensor, "b"]:
    """Eq. 7 of each image: pulls present classes above `upper` and absent ones below `lower`; zero once both are met."""
    present = targets * (upper - lengths).relu().square()
    absent = (1 - targets) * (lengths - lower).relu().square()
    return (present + absent_weight * absent).sum(dim=1)


def reconstruction_loss(images: Float[Tensor, "b *s"], targets: Float[Tensor, "b *s"]) -> Float[Tensor, ""]:
    """The mean squared difference between a reconstruction and the image it should give back."""
    return (images - targets).square().mean()


def score_distance(scores: Float[Tensor, "b j"], taught: Float[Tensor, "b j"]) -> Float[Tensor, ""]:
    """The squared distance of two networks' scores, summed over classes as the margin loss is, mean over the batch."""
    return (scores - taught).square().sum(dim=1).mean()


def pose_distance(poses: Float[Tensor, "b k d"], taught: Float[Tensor, "b k d"]) -> Float[Tensor, ""]:
    """The squared distance of two networks' poses, summed over capsules, mean over the batch."""
    return (poses - taught).square().sum(dim=(1, 2)).mean()


def cross_entropy(logits: Float[Tensor, "b j"], targets: Float[Tensor, "b j"]) -> Float[Tensor, ""]:
    """Of the softmax, mean over the batch; several classes in one image share its probability evenly."""
    shares = targets / targets.sum(dim=1, keepdim=True)
    return -(shares * logits.log_softmax(dim=1)).sum(dim=1).mean()


def spread_loss(
    activations: Float[Tensor, "b j"], targets: Float[Tensor, "b j"], *, margin: float = 0.9
) -> Float[Tensor, ""]:
    """Pull each present class above each absent one by `margin`: the mean over such pairs of the squared shortfall, where
    Hinton et al. sum over the absent classes. Zero where no image has both present and absent classes."""
    pairs = targets.unsqueeze(2) * (1 - targets).unsqueeze(1)
    shortfall = (margin - (activations.unsqueeze(2) - activations.unsqueeze(1))).relu()
    count = pairs.sum()
    return (pairs * shortfall.square()).sum() / torch.where(count > 0, count, 1)
