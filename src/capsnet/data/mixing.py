"""Mixup: each image is blended with another of its batch, and its targets with the other's (Zhang et al. 2018).

It stands in a list of augmentations like any other word, "crop_flip,mixup", but works on whole batches: targets change too.
The image with the larger share stays the one whose class is decoded, and its own picture is what the decoder should give.

Letters: B batch, J classes, K pictures to reconstruct, C x H x W image.
"""

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

MIXUP = "mixup"
LARGEST_SHARE = 0.4


def without_mixup(augmentation: str) -> tuple[str, bool]:
    """The list without the word "mixup", and whether it was there."""
    words = [word.strip() for word in augmentation.split(",")]
    others = [word for word in words if word != MIXUP]
    return (",".join(others) or "none", True) if len(others) < len(words) else (augmentation, False)


def mixup(
    images: Float[Tensor, "b c h w"],
    targets: Float[Tensor, "b j"],
    classes: Int[Tensor, "b k"],
    originals: Float[Tensor, "b k c h w"],
    generator: Generator,
) -> tuple[Float[Tensor, "b c h w"], Float[Tensor, "b j"], Int[Tensor, "b k"], Float[Tensor, "b k c h w"]]:
    """A batch in which another image makes up a share of each, uniform between 0 and 0.4."""
    device = generator.device
    share = LARGEST_SHARE * torch.rand(len(images), generator=generator, device=device)
    other = torch.randperm(len(images), generator=generator, device=device)
    mixed = images.lerp(images[other], share[:, None, None, None])
    return mixed, targets.lerp(targets[other], share[:, None]), classes, originals
