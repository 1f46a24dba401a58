"""CapsNet (Sabour, Frosst, Hinton 2017): two wide convolutions, 1152 primary capsules, dynamic routing.

    1x28x28 -> conv 9x9/1, 256, ReLU: 256x20x20 -> primary conv 9x9/2 to 32 types x 8: 6x6x32 = 1152 capsules
    -> W[1152, 8, 10 x 16] and bias[10, 16], three iterations of routing                       6,804,384 parameters

The details of the original program that ports miss are here: the primary pre-activation is divided by 32, the class
capsules' bias is added in every iteration, gradients flow through all of them, and initial values are truncated normals
of deviation 0.05 (first convolution) and 0.1, biases 0.1. `original_loss=True` scales the margin loss as that program does.

Any routing goes in its place: `routing="self_attention"` is what the Efficient-CapsNet paper retrains.

Letters: B batch, I primary capsules, J classes, D pose size, C x H x W image.
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError
from capsnet.functional.routing import get_routing
from capsnet.layers import ConvPrimaryCapsules, DenseCapsules
from capsnet.models.base import CapsuleModel, Output, build_decoder
from capsnet.registry import ImageShape, register_model

KERNEL = 9
SMALLEST = 2 * KERNEL - 1
CLASS_SIZE = 16


class CapsNetEncoder(nn.Module):
    """Image to class capsules.

    Args:
        channels: of the first convolution.
        types: of primary capsules; each is at every position.
        primary_size: elements of a primary capsule.
        routing_options: for DenseCapsules: `routing`, `iterations`, `squash` and the routing's own.

    Shapes: (B, C, H, W) -> poses (B, J, D), scores (B, J), coupling (B, J, I).
    """

    def __init__(
        self,
        image_shape: ImageShape,
        num_classes: int,
        *,
        channels: int = 256,
        types: int = 32,
        primary_size: int = 8,
        routing: str = "dynamic",
        **routing_options: Any,
    ) -> None:
        super().__init__()
        if min(image_shape[1:]) < SMALLEST:
            sides = "x".join(map(str, image_shape[1:]))
            raise CapsNetError(
                f"CapsNet's two 9x9 convolutions need an image of {SMALLEST} pixels a side or more; got {sides}."
            )
        self.conv = nn.Conv2d(image_shape[0], channels, KERNEL)
        height, width = (side - KERNEL + 1 for side in image_shape[1:])
        self.primary = ConvPrimaryCapsules(
            channels, (height, width), types=types, size=primary_size, kernel=KERNEL
        )
        routing_options.setdefault("bias", get_routing(routing).takes("bias"))
        self.capsules = DenseCapsules(
            self.primary.capsules, primary_size, num_classes, CLASS_SIZE, routing=routing, **routing_options
        )
        self._initialise()

    def _initialise(self) -> None:
        """As the original program; its truncated normals are not widened to make up for what is cut off."""
        assert self.conv.bias is not None
        nn.init.trunc_normal_(self.conv.weight, std=0.05, a=-0.1, b=0.1)
        nn.init.constant_(self.conv.bias, 0.1)
        nn.init.trunc_normal_(self.capsules.weight, std=0.1, a=-0.2, b=0.2)
        if "bias" in self.capsules.routing.learned:
            nn.init.constant_(self.capsules.routing.get_parameter("bias"), 0.1)

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        parts = self.primary(self.conv(images).relu())
        result = self.capsules(parts)
        return Output(result.poses, result.activations, result.coupling if coupling else None, parts=parts)


class CapsNet(CapsuleModel):
    """A capsule model whose loss may have the original program's scale."""

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module | None,
        image_shape: ImageShape,
        *,
        original_loss: bool = False,
    ) -> None:
        super().__init__(encoder, decoder, image_shape)
        self.original_loss = original_loss

    def classification_loss(
        self, output: Output, targets: Float[Tensor, "b j"], *, progress: float = 1.0
    ) -> Float[Tensor, ""]:
        """The routing's; with `original_loss` half of it and the mean over classes, 1/20 for ten of them."""
        scale = 1 / (2 * targets.shape[1]) if self.original_loss else 1.0
        return scale * super().classification_loss(output, targets, progress=progress)


@register_model(image_shape=(1, 28, 28), num_classes=10)
def capsnet(
    image_shape: ImageShape,
    num_classes: int,
    *,
    decoder: bool | str = True,
    original_loss: bool = False,
    channels: int = 256,
    types: int = 32,
    routing: str = "dynamic",
    **routing_options: Any,
) -> CapsuleModel:
    """CapsNet with dynamic or any other routing, for images of 17 pixels a side and more."""
    encoder = CapsNetEncoder(
        image_shape, num_classes, channels=channels, types=types, routing=routing, **routing_options
    )
    built = build_decoder(decoder, num_classes * CLASS_SIZE, image_shape)
    return CapsNet(encoder, built, image_shape, original_loss=original_loss)
