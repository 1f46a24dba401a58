"""VB-routing (Ribeiro, Leontidis, Kollias 2020): Matrix-CapsNet's skeleton with variational Bayes routing.

The first convolution has no bias and is batch-normalised, and so are the poses and activations of every capsule layer:
316,810 parameters. Trained with cross-entropy on the class capsules' activation logits; the authors' program takes it of the
activations themselves, which bounds how low the loss can go.

Letters: B batch, J classes.
"""

from jaxtyping import Float
from torch import Tensor

from capsnet.functional.losses import cross_entropy
from capsnet.layers.conv_capsules import SIZE
from capsnet.models.base import CapsuleModel, Output, build_decoder
from capsnet.models.matrix_capsnet import TYPES, MatrixEncoder
from capsnet.registry import ImageShape, register_model


class VBCapsNet(CapsuleModel):
    """Trained with cross-entropy."""

    def classification_loss(
        self, output: Output, targets: Float[Tensor, "b j"], *, progress: float = 1.0
    ) -> Float[Tensor, ""]:
        """Cross-entropy of the activation logits' softmax."""
        assert output.logits is not None
        return cross_entropy(output.logits, targets)


@register_model(image_shape=(2, 32, 32), num_classes=5)
def vb_capsnet(
    image_shape: ImageShape,
    num_classes: int,
    *,
    decoder: bool | str = False,
    types: tuple[int, int, int, int] = TYPES,
    iterations: int = 3,
) -> CapsuleModel:
    """The network of the smallNORB experiments; it has no decoder unless asked for one."""
    encoder = MatrixEncoder(
        image_shape, num_classes, types=types, routing="variational", iterations=iterations
    )
    return VBCapsNet(encoder, build_decoder(decoder, num_classes * SIZE, image_shape), image_shape)
