"""Matrix-CapsNet with EM routing (Hinton, Sabour, Frosst 2018): a convolution, then capsules with 4x4 poses all the way.

    2x32x32 -> conv 5x5/2, A -> 14x14 -> 1x1 primary capsules, B types -> capsules 3x3/2, C types -> 6x6
            -> capsules 3x3/1, D types -> 4x4 -> a capsule for each class, matrices shared over positions

With A = B = C = D = 32: 316,650 parameters for five classes; 318,420 for 1x28x28 and ten. The paper's small variant,
`types=(64, 8, 16, 16)`, has 68,618. The spread loss's margin grows from 0.2 to 0.9 over the training.

Letters: B batch, J classes, C x H x W image.
"""

from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError
from capsnet.layers.conv_capsules import SIZE, ClassCapsules, ConvCapsules, MatrixPrimaryCapsules
from capsnet.models.base import CapsuleModel, Output, build_decoder
from capsnet.registry import ImageShape, register_model

TYPES = (32, 32, 32, 32)
SMALLEST = 17  # pixels a side that leave the last map one position


class MatrixEncoder(nn.Module):
    """Image to class capsules; with `routing="variational"` the skeleton of the VB network.

    Args:
        types: A channels of the convolution; B, C, D types of the three capsule layers.
    """

    def __init__(
        self,
        image_shape: ImageShape,
        num_classes: int,
        *,
        types: tuple[int, int, int, int] = TYPES,
        routing: str = "em",
        iterations: int = 3,
    ) -> None:
        super().__init__()
        if min(image_shape[1:]) < SMALLEST:
            sides = "x".join(map(str, image_shape[1:]))
            raise CapsNetError(f"This network takes images of {SMALLEST} pixels a side or more; got {sides}.")
        if len(types) != 4 or not all(isinstance(count, int) and count >= 1 for count in types):
            raise CapsNetError(f"types are four whole numbers from 1 up, such as 32,32,32,32; got {types!r}.")
        channels, primary, middle, last = types
        variational = routing == "variational"
        conv = nn.Conv2d(image_shape[0], channels, 5, 2, bias=not variational)
        self.features = nn.Sequential(conv, *([nn.BatchNorm2d(channels)] if variational else []), nn.ReLU())
        self.primary = MatrixPrimaryCapsules(channels, primary, normalised=variational)
        self.middle = ConvCapsules(primary, middle, stride=2, routing=routing, iterations=iterations)
        self.last = ConvCapsules(middle, last, stride=1, routing=routing, iterations=iterations)
        self.classes = ClassCapsules(last, num_classes, routing=routing, iterations=iterations)

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        capsules = self.primary(self.features(images))
        poses, activations, coupled = self.classes(*self.last(*self.middle(*capsules)))
        return Output(poses, activations, coupled if coupling else None, activations.logit(eps=1e-6))


@register_model(image_shape=(2, 32, 32), num_classes=5)
def matrix_capsnet(
    image_shape: ImageShape,
    num_classes: int,
    *,
    decoder: bool | str = False,
    types: tuple[int, int, int, int] = TYPES,
    iterations: int = 3,
) -> CapsuleModel:
    """The network of the smallNORB experiments; it has no decoder unless asked for one."""
    encoder = MatrixEncoder(image_shape, num_classes, types=types, iterations=iterations)
    return CapsuleModel(encoder, build_decoder(decoder, num_classes * SIZE, image_shape), image_shape)
