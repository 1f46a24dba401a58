"""A deeper system for colour photographs: a compact residual network, then Efficient-CapsNet's capsules.

The paper's four convolutions see too little of a photograph. Here each stage halves the maps, and adds to its first convolution
what its second makes of it (He et al. 2016); batch normalisation and GELU follow every convolution. With 32 pixels a side:

    patches 12x31x31, stages 64x15x15, 256x7x7, 256x3x3, depthwise 3x3 -> 32 capsules of 8 -> 10 of 16

The stem is fixed: it writes each patch of pixels in the basis of the discrete cosine transform, over rows, columns and
channels, which nearly decorrelates a photograph's pixels; the normalisation after it gives all coefficients the same variance.

Letters: B batch, C x H x W image, F feature maps, P the patch's side.
"""

import math
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from capsnet.errors import CapsNetError
from capsnet.models.backbones import BackboneEncoder, register_backbone
from capsnet.models.base import CapsuleModel, build_decoder
from capsnet.registry import ImageShape, register_model

WIDTHS = (64, 256, 256)
CLASS_SIZE = 16
SMALLEST = 16  # pixels a side: each stage halves what the stem leaves


def cosines(n: int) -> Float[Tensor, "n n"]:
    """The orthonormal discrete cosine transform: one row per frequency."""
    k, x = torch.arange(n)[:, None], torch.arange(n)
    rows = torch.cos(math.pi / n * (x + 0.5) * k) * math.sqrt(2 / n)
    rows[0] /= math.sqrt(2)
    return rows


class PatchStem(nn.Module):
    """Every patch as its cosine coefficients, each normalised over the batch: no loss, no learned mixing.

    Shapes: (B, C, H, W) -> (B, C*P*P, H2, W2).
    """

    filters: Tensor

    def __init__(self, channels: int, patch: int, stride: int) -> None:
        super().__init__()
        basis = torch.einsum("ac,by,dx->abdcyx", cosines(channels), cosines(patch), cosines(patch))
        self.register_buffer("filters", basis.reshape(-1, channels, patch, patch), persistent=False)
        self.stride = stride
        self.norm = nn.BatchNorm2d(len(self.filters))

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b f h2 w2"]:
        return self.norm(F.conv2d(images, self.filters, stride=self.stride))


class Stage(nn.Module):
    """Half the maps' side: convolution and pooling, then a second convolution's work added.

    Shapes: (B, F, H, W) -> (B, F2, H/2, W/2).
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.widen = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(width)
        self.refine = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)

    def forward(self, maps: Float[Tensor, "b f h w"]) -> Float[Tensor, "b f2 h2 w2"]:
        maps = F.gelu(self.first_norm(F.max_pool2d(self.widen(maps), 2)))
        return maps + F.gelu(self.second_norm(self.refine(maps)))


class ResidualBackbone(nn.Sequential):
    """A stem whose stride brings the image to 31 to 64 pixels a side, then a stage for each width.

    Shapes: (B, C, H, W) -> (B, F, H2, W2) with 1 to 8 pixels a side.
    """

    def __init__(self, image_shape: ImageShape, widths: tuple[int, ...] = WIDTHS) -> None:
        channels, *side = image_shape
        if min(side) < SMALLEST:
            raise CapsNetError(
                f"residual_capsnet takes images of at least {SMALLEST} pixels a side; got {side[0]}x{side[1]}."
            )
        stride = max(1, 2 ** math.floor(math.log2(max(side) / 32)))
        stem = PatchStem(channels, max(2, stride), stride)
        sizes = (len(stem.filters), *widths)
        super().__init__(stem, *(Stage(below, width) for below, width in pairwise(sizes)))


@register_backbone
def residual(image_shape: ImageShape) -> nn.Module:
    """The backbone of `residual_capsnet`."""
    return ResidualBackbone(image_shape)


@register_model(image_shape=(3, 32, 32), num_classes=10)
def residual_capsnet(
    image_shape: ImageShape,
    num_classes: int,
    *,
    decoder: bool | str = False,
    widths: tuple[int, ...] = WIDTHS,
    primary_size: int = 8,
    capsule_layers: tuple[tuple[int, int], ...] = (),
    routing: str = "self_attention",
    **routing_options: Any,
) -> CapsuleModel:
    """Capsules on a compact residual network, for photographs of at least 16 pixels a side; without a decoder by default."""
    backbone = ResidualBackbone(image_shape, widths)
    encoder = BackboneEncoder(
        backbone,
        image_shape,
        num_classes,
        primary_size=primary_size,
        class_size=CLASS_SIZE,
        capsule_layers=capsule_layers,
        routing=routing,
        **routing_options,
    )
    built = build_decoder(decoder, num_classes * CLASS_SIZE, image_shape)
    return CapsuleModel(encoder, built, image_shape)
