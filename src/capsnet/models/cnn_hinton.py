"""The smallNORB baseline CNN of Hinton et al. 2018: two pooled 5x5 convolutions and a wide dense layer.

2x32x32: 32 channels, max-pool 2, 64 channels, max-pool 2 (64x8x8), dense 1024 with ReLU, dropout, softmax over 5 classes:
4,253,349 parameters. The paper's has no decoder; `decoder=True` adds one that reads the 1024 features.
"""

import math
from itertools import pairwise

from torch import nn

from capsnet.errors import CapsNetError
from capsnet.functional.routing.registry import Share
from capsnet.models.base import CapsuleModel, SoftmaxModel, build_decoder
from capsnet.models.cnn_small import FeatureEncoder
from capsnet.registry import ImageShape, register_model

CHANNELS = (32, 64)
FEATURES = 1024


@register_model(image_shape=(2, 32, 32), num_classes=5)
def cnn_hinton(
    image_shape: ImageShape, num_classes: int, *, decoder: bool | str = False, dropout: Share = 0.5
) -> CapsuleModel:
    """The baseline of the EM-routing paper, for images of 4 pixels a side and more."""
    if min(image_shape[1:]) < 4:
        sides = "x".join(map(str, image_shape[1:]))
        raise CapsNetError(f"cnn_hinton halves an image twice, so it needs 4 pixels a side; got {sides}.")
    layers = [
        layer
        for a, b in pairwise((image_shape[0], *CHANNELS))
        for layer in (nn.Conv2d(a, b, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    ]
    maps = CHANNELS[-1] * math.prod(side // 4 for side in image_shape[1:])
    encoder = FeatureEncoder(nn.Sequential(*layers), (maps, FEATURES, num_classes), dropout=dropout)
    return SoftmaxModel(encoder, build_decoder(decoder, FEATURES, image_shape), image_shape)
