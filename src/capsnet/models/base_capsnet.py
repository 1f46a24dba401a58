"""Base-CapsNet: a plain CNN whose last layer is read as capsules, so that capsules are told apart from routing.

The paper describes it in words only; this reconstruction hits both of its parameter counts. Four 5x5 convolutions of
stride 2, each with ReLU and then BatchNorm, a global average, three dense layers, squash (eq. 2), margin loss (eq. 7).

    8, 16, 32, 64 channels -> 64 -> 328 -> 192 -> 16 x classes: 183,128 parameters on MNIST, 167,888 on smallNORB

Letters: B batch, J classes, D pose size, C x H x W image.
"""

from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from capsnet.functional.squashing import get_squash, length
from capsnet.layers.initialisation import glorot_uniform_
from capsnet.models.base import CapsuleModel, Output, build_decoder
from capsnet.registry import ImageShape, register_model

CHANNELS = (8, 16, 32, 64)
HIDDEN = (328, 192)
CLASS_SIZE = 16


class BaseEncoder(nn.Module):
    """Image to class capsules without votes: a dense layer gives the poses.

    Shapes: (B, C, H, W) -> poses (B, J, D), scores (B, J).
    """

    def __init__(self, channels: int, num_classes: int, *, squash: str) -> None:
        super().__init__()
        self.squash = get_squash(squash)
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(a, b, 5, stride=2, padding=2),
                    nn.ReLU(),
                    nn.BatchNorm2d(b, eps=1e-3, momentum=0.01),
                )
                for a, b in pairwise((channels, *CHANNELS))
            )
        )
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise((CHANNELS[-1], *HIDDEN)))
        self.poses = nn.Linear(HIDDEN[-1], num_classes * CLASS_SIZE)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                glorot_uniform_(layer)

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        features = self.blocks(images).mean(dim=(2, 3))
        for layer in self.hidden:
            features = layer(features).relu()
        poses = self.squash(self.poses(features).unflatten(1, (-1, CLASS_SIZE)))
        return Output(poses, length(poses))


@register_model(image_shape=(1, 28, 28), num_classes=10)
def base_capsnet(
    image_shape: ImageShape, num_classes: int, *, decoder: bool | str = True, squash: str = "efficient"
) -> CapsuleModel:
    """A CNN with capsule output, for images of any size; with reconstruction it decodes from the masked capsules."""
    encoder = BaseEncoder(image_shape[0], num_classes, squash=squash)
    return CapsuleModel(encoder, build_decoder(decoder, num_classes * CLASS_SIZE, image_shape), image_shape)
