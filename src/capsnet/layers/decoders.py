"""Decoders: from the masked class capsules back to the image, the regulariser that makes poses describe the input.

Efficient-CapsNet, section "Margin Loss and reconstruction regularizer"; the dense decoder is Sabour et al. 2017's
(figure 2), the convolutional one the authors' for smallNORB.

Letters: B batch, J classes, D pose size, C x H x W image.
"""

import math
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from capsnet.errors import CapsNetError
from capsnet.layers.initialisation import glorot_normal_, glorot_uniform_, he_normal_


def mask_poses(poses: Float[Tensor, "b j d"], classes: Int[Tensor, "b"]) -> Float[Tensor, "b j d"]:
    """All capsules but the chosen one set to zero: the decoder learns that only the class's own pose counts."""
    return poses * F.one_hot(classes, poses.shape[1]).to(poses.dtype).unsqueeze(-1)


class DenseDecoder(nn.Module):
    """Three fully connected layers: 512, 1024, then a pixel each, through a sigmoid.

    Shapes: (B, F) -> (B, C, H, W), F the features (J*D masked capsules, or a CNN's).
    """

    def __init__(
        self, features: int, image_shape: tuple[int, int, int], hidden: tuple[int, ...] = (512, 1024)
    ) -> None:
        super().__init__()
        self.image_shape = image_shape
        sizes = (features, *hidden)
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.pixels = nn.Linear(sizes[-1], math.prod(image_shape))
        for layer in self.hidden:
            assert isinstance(layer, nn.Linear)
            he_normal_(layer)
        glorot_normal_(self.pixels)

    def forward(self, features: Float[Tensor, "b f"]) -> Float[Tensor, "b c h w"]:
        for layer in self.hidden:
            features = layer(features).relu()
        return self.pixels(features).sigmoid().unflatten(1, self.image_shape)


class ConvDecoder(nn.Module):
    """A dense 8x8 seed, doubled three times with a 3x3 convolution after each, to 48x48.

    Shapes: (B, F) -> (B, C, 48, 48).
    """

    SIDE = 48

    def __init__(self, features: int, image_shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, width = image_shape
        if (height, width) != (self.SIDE, self.SIDE):
            raise CapsNetError(
                f"The convolutional decoder makes {self.SIDE}x{self.SIDE} images, not {height}x{width}; "
                "use decoder='dense' or decoder=False."
            )
        self.seed = nn.Linear(features, 64)
        sizes = (1, 64, 128, 128)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3) for a, b in pairwise(sizes))
        self.pixels = nn.Conv2d(128, channels, 3)
        for layer in (self.seed, *self.convs, self.pixels):
            assert isinstance(layer, nn.Conv2d | nn.Linear)
            glorot_uniform_(layer)

    def forward(self, features: Float[Tensor, "b f"]) -> Float[Tensor, "b c h w"]:
        maps = self.seed(features).reshape(-1, 1, 8, 8)
        for conv in self.convs:
            maps = F.interpolate(maps, scale_factor=2, mode="bilinear", align_corners=False)
            maps = F.leaky_relu(conv(maps), 0.2)
        return torch.sigmoid(self.pixels(maps))
