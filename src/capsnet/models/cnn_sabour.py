"""The large baseline CNN of Sabour et al. 2017: what capsules were first compared with, at five times their size.

Three 5x5 convolutions that keep the image's size (256, 256, 128 channels, ReLU, no pooling), dense 328 and 192, dropout,
softmax: 35,445,522 parameters, nearly all in the first dense layer. The paper's has no decoder; `decoder=True` adds one
that reads the 192 features.
"""

import math
from itertools import pairwise

from torch import nn

from capsnet.functional.routing.registry import Share
from capsnet.models.base import CapsuleModel, SoftmaxModel, build_decoder
from capsnet.models.cnn_small import FeatureEncoder
from capsnet.registry import ImageShape, register_model

CHANNELS = (256, 256, 128)
HIDDEN = (328, 192)


@register_model(image_shape=(1, 28, 28), num_classes=10)
def cnn_sabour(
    image_shape: ImageShape,
    num_classes: int,
    *,
    decoder: bool | str = False,
    dropout: Share = 0.5,
    channels: tuple[int, ...] = CHANNELS,
) -> CapsuleModel:
    """The baseline of the dynamic-routing paper, for images of any size; its parameters grow with the pixels."""
    layers = [
        layer
        for a, b in pairwise((image_shape[0], *channels))
        for layer in (nn.Conv2d(a, b, 5, padding=2), nn.ReLU())
    ]
    maps = channels[-1] * math.prod(image_shape[1:])
    encoder = FeatureEncoder(nn.Sequential(*layers), (maps, *HIDDEN, num_classes), dropout=dropout)
    return SoftmaxModel(encoder, build_decoder(decoder, HIDDEN[-1], image_shape), image_shape)
