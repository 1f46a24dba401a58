"""The paper's own convolutional baseline ("Our Baseline"): what a network as small as Efficient-CapsNet does without capsules.

The paper describes it in words only; this reconstruction hits both of its parameter counts. Four 5x5 convolutions of
stride 2, two dense layers, dropout, softmax. With reconstruction it decodes from the 192 features, unmasked.

    1x28x28: 8x14x14, 48x7x7, 48x4x4, 16x2x2 -> 64 -> 328 -> 192 -> 10      173,138 parameters
    2x48x48: ... 16x3x3 -> 144 -> 328 -> 192 -> 5                           198,613

Letters: B batch, J classes, F features, C x H x W image.
"""

import math
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from capsnet.functional.routing.registry import Share
from capsnet.layers.initialisation import glorot_uniform_
from capsnet.models.base import CapsuleModel, Output, SoftmaxModel, build_decoder
from capsnet.registry import ImageShape, register_model

CHANNELS = (8, 48, 48, 16)
HIDDEN = (328, 192)


class FeatureEncoder(nn.Module):
    """Convolutions, dense layers, dropout, a linear classifier: the shape that all the baselines share.

    Args:
        convolutions: ending in maps of any shape.
        sizes: of the flattened maps, the dense layers, and the classes.

    Shapes: (B, C, H, W) -> features (B, F), logits and scores (B, J).
    """

    def __init__(self, convolutions: nn.Sequential, sizes: tuple[int, ...], *, dropout: float = 0.5) -> None:
        super().__init__()
        self.convolutions = convolutions
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes[:-1]))
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(sizes[-2], sizes[-1])
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                glorot_uniform_(layer)

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        features = self.convolutions(images).flatten(1)
        for layer in self.hidden:
            features = layer(features).relu()
        logits = self.classes(self.dropout(features))
        return Output(features, logits.softmax(dim=1), logits=logits)


@register_model(image_shape=(1, 28, 28), num_classes=10)
def cnn_small(
    image_shape: ImageShape, num_classes: int, *, decoder: bool | str = True, dropout: Share = 0.5
) -> CapsuleModel:
    """The paper's baseline CNN, for images of any size; a picture shrinks sixteenfold on its way."""
    channels = (image_shape[0], *CHANNELS)
    layers = [
        layer for a, b in pairwise(channels) for layer in (nn.Conv2d(a, b, 5, stride=2, padding=2), nn.ReLU())
    ]
    maps = CHANNELS[-1] * math.prod(math.ceil(side / 16) for side in image_shape[1:])
    encoder = FeatureEncoder(nn.Sequential(*layers), (maps, *HIDDEN, num_classes), dropout=dropout)
    return SoftmaxModel(encoder, build_decoder(decoder, HIDDEN[-1], image_shape), image_shape)
