"""Homogeneous vector capsules after Byerly et al. 2020 ("HFC"): feature maps as capsules, without any routing.

Nine 3x3 convolutions without padding (32, 48, ..., 160 channels), each with a BatchNorm that only shifts, and ReLU. After
the third, sixth and ninth a branch reads every feature map as one capsule of D = H x W elements. Class j weighs capsule f
elementwise by W[j, f], sums over the capsules, normalises, ReLU, and sums over the elements: a logit. The three branches'
logits are normalised and added.

1x28x28: branches 64x22x22, 112x16x16, 160x10x10; 1,514,187 parameters (3 more with learned branch weights). The paper's
recipe scales its input to [-1, 1] and evaluates a moving average of the weights.

Letters: B batch, F feature maps = capsules, D elements of a capsule, J classes, N branches.
"""

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError
from capsnet.layers.former_names import FormerNames
from capsnet.layers.initialisation import he_normal_, truncated_normal_
from capsnet.models.base import CapsuleModel, Output, SoftmaxModel
from capsnet.registry import ImageShape, register_model

CHANNELS = tuple(range(32, 161, 16))
BRANCH_AFTER = (3, 6, 9)


class ShiftNorm(FormerNames):
    """Batch normalisation with a learned shift and no learned scale: what follows can undo a scale by itself.

    Args:
        kind: torch's BatchNorm for inputs of this many axes.
        size: X.

    Shapes: (B, X, ...) -> the same, normalised for each x over all other axes.
    """

    former_names = {"running_": "norm.running_"}  # noqa: RUF012

    def __init__(self, kind: type[nn.BatchNorm1d] | type[nn.BatchNorm2d], size: int) -> None:
        super().__init__()
        self.norm = kind(size, eps=1e-3, momentum=0.01, affine=False)
        self.shift = nn.Parameter(torch.zeros(size))

    def forward(self, x: Float[Tensor, "b x *s"]) -> Float[Tensor, "b x *s"]:
        return self.norm(x) + self.shift.view(-1, *(1 for _ in x.shape[2:]))


class ConvBlock(nn.Module):
    """3x3 convolution without bias, shift normalisation, ReLU."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, bias=False)
        self.norm = ShiftNorm(nn.BatchNorm2d, filters)
        he_normal_(self.conv)

    def forward(self, maps: Float[Tensor, "b c h w"]) -> Float[Tensor, "b f h2 w2"]:
        return self.norm(self.conv(maps)).relu()


class Branch(nn.Module):
    """One vector per class from all feature maps, element by element.

    Shapes: (B, F, H, W) -> (B, J, D), D = H x W.
    """

    def __init__(self, maps: int, elements: int, num_classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_classes, maps, elements))
        self.norm = ShiftNorm(nn.BatchNorm1d, elements)
        truncated_normal_(self.weight, std=math.sqrt(2 / maps))

    def forward(self, maps: Float[Tensor, "b f h w"]) -> Float[Tensor, "b j d"]:
        vectors = torch.einsum("bfd,jfd->bdj", maps.flatten(2), self.weight)
        return self.norm(vectors).relu().transpose(1, 2)


class HFCEncoder(nn.Module):
    """Three stages of three convolutions, a branch after each; `poses` are the branches' vectors side by side."""

    def __init__(self, image_shape: ImageShape, num_classes: int, *, learned_weights: bool) -> None:
        super().__init__()
        blocks = [ConvBlock(a, b) for a, b in pairwise((image_shape[0], *CHANNELS))]
        self.stages = nn.ModuleList(nn.Sequential(*blocks[n - 3 : n]) for n in BRANCH_AFTER)
        self.branches = nn.ModuleList(
            Branch(CHANNELS[n - 1], math.prod(side - 2 * n for side in image_shape[1:]), num_classes)
            for n in BRANCH_AFTER
        )
        self.branch_weights = nn.Parameter(torch.ones(len(BRANCH_AFTER))) if learned_weights else None
        self.norm = ShiftNorm(nn.BatchNorm1d, len(BRANCH_AFTER))

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        maps, vectors = images, []
        for stage, branch in zip(self.stages, self.branches, strict=True):
            maps = stage(maps)
            vectors.append(branch(maps))
        branch_logits = torch.stack([v.sum(dim=2) for v in vectors], dim=1)
        if self.branch_weights is not None:
            branch_logits = branch_logits * self.branch_weights[:, None]
        logits = self.norm(branch_logits).sum(dim=1)
        return Output(torch.cat(vectors, dim=2), logits.softmax(dim=1), logits=logits)


@register_model(image_shape=(1, 28, 28), num_classes=10)
def hfc(
    image_shape: ImageShape, num_classes: int, *, decoder: bool | str = False, learned_weights: bool = False
) -> CapsuleModel:
    """Byerly's network, for images of 19 pixels a side and more. It has no decoder."""
    if decoder:
        raise CapsNetError("hfc has no decoder: leave decoder out, or set it to False.")
    if min(image_shape[1:]) < 19:
        sides = "x".join(map(str, image_shape[1:]))
        raise CapsNetError(f"hfc's nine convolutions take 18 pixels off a side, so it needs 19; got {sides}.")
    encoder = HFCEncoder(image_shape, num_classes, learned_weights=learned_weights)
    return SoftmaxModel(encoder, None, image_shape)
