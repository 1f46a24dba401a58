"""DA-CapsNet (Huang, Zhou 2020): CapsNet with two attention gates. A reconstruction: no program was published.

A gate is a squeeze-and-excitation block: one number for each feature map or capsule, two dense layers, a sigmoid, and each
map or capsule is scaled by its own. One gate stands behind the first convolution (256 maps, 16 in between: 8,464
parameters), one behind the primary capsules (1152, 72 in between: 167,112). Routing and decoder are
CapsNet's; the loss is the one that suits the routing.
6,979,960 parameters on MNIST.

Letters: B batch, C maps, I primary capsules, D pose size.
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from capsnet.layers.initialisation import glorot_uniform_
from capsnet.models.base import CapsuleModel, Output, build_decoder
from capsnet.models.capsnet import CLASS_SIZE, CapsNetEncoder
from capsnet.registry import ImageShape, register_model

REDUCTION = 16


class Gate(nn.Module):
    """How much each of N numbers' owners counts, between 0 and 1, given all of them.

    Shapes: (B, N) -> (B, N).
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(size, max(1, size // REDUCTION))
        self.excite = nn.Linear(max(1, size // REDUCTION), size)
        glorot_uniform_(self.squeeze)
        glorot_uniform_(self.excite)

    def forward(self, summary: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        return self.excite(self.squeeze(summary).relu()).sigmoid()


class DACapsNetEncoder(CapsNetEncoder):
    """CapsNet's encoder with a gate over its feature maps and one over its primary capsules."""

    def __init__(self, image_shape: ImageShape, num_classes: int, **options: Any) -> None:
        super().__init__(image_shape, num_classes, **options)
        self.map_gate = Gate(self.conv.out_channels)
        self.capsule_gate = Gate(self.primary.capsules)

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        maps = self.conv(images).relu()
        maps = maps * self.map_gate(maps.mean(dim=(2, 3)))[:, :, None, None]
        capsules = self.primary(maps)
        capsules = capsules * self.capsule_gate(capsules.mean(dim=2))[:, :, None]
        result = self.capsules(capsules)
        return Output(result.poses, result.activations, result.coupling if coupling else None)


@register_model(image_shape=(1, 28, 28), num_classes=10)
def da_capsnet(
    image_shape: ImageShape,
    num_classes: int,
    *,
    decoder: bool | str = True,
    channels: int = 256,
    types: int = 32,
    routing: str = "dynamic",
    **routing_options: Any,
) -> CapsuleModel:
    """CapsNet with dual attention, for images of 17 pixels a side and more."""
    encoder = DACapsNetEncoder(
        image_shape, num_classes, channels=channels, types=types, routing=routing, **routing_options
    )
    return CapsuleModel(encoder, build_decoder(decoder, num_classes * CLASS_SIZE, image_shape), image_shape)
