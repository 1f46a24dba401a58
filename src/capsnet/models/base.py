"""What every system is: an encoder from image to class capsules and, where it has one, a decoder back to the image.

Letters: B batch, J classes, D pose size, I input capsules, C x H x W image.
"""

from typing import Any, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from capsnet.card import Card
from capsnet.errors import CapsNetError
from capsnet.functional.losses import cross_entropy, margin_loss, score_distance
from capsnet.functional.squashing import length
from capsnet.layers.decoders import ConvDecoder, DenseDecoder, mask_poses
from capsnet.layers.routing import Routing
from capsnet.registry import Architecture, ImageShape


class Output(NamedTuple):
    """What a model says of a batch. `poses` is a CNN's feature vector where there are no capsules; `coupling` is filled when
    asked for; `logits` where scores come from a softmax or a sigmoid; `parts` are the primary capsules, where there are any."""

    poses: Float[Tensor, "b ..."]
    scores: Float[Tensor, "b j"]
    coupling: Float[Tensor, "b j i"] | None = None
    logits: Float[Tensor, "b j"] | None = None
    parts: Float[Tensor, "b i k"] | None = None


class CapsuleModel(nn.Module):
    """An encoder and perhaps a decoder, with the loss that its paper trains the scores with."""

    architecture: Architecture
    card: Card = Card()

    def __init__(self, encoder: nn.Module, decoder: nn.Module | None, image_shape: ImageShape) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.image_shape = image_shape

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        """Scores and poses of float images that are already pre-processed; nothing is scaled here."""
        if tuple(images.shape[1:]) != self.image_shape:
            expected = "x".join(map(str, self.image_shape))
            got = "x".join(map(str, images.shape[1:]))
            raise CapsNetError(f"This model takes images of shape {expected}; got {got}.")
        return self.encoder(images, coupling=coupling)

    @property
    def routing(self) -> Routing | None:
        """The routing of the class capsules, which is the encoder's last; None where nothing is routed."""
        routings = [module for module in self.encoder.modules() if isinstance(module, Routing)]
        return routings[-1] if routings else None

    def reconstruct(
        self, poses: Float[Tensor, "b j d"] | Output, classes: Int[Tensor, "b"] | None = None
    ) -> Float[Tensor, "b c h w"]:
        """Return the picture that the pose of one class stands for.

        Args:
            poses: of the class capsules, or the whole output.
            classes: whose pose to take; the best-scored when left out.
        """
        if self.decoder is None:
            raise CapsNetError("This model has no decoder, so it cannot reconstruct.")
        if isinstance(poses, Output):
            classes = poses.scores.argmax(dim=1) if classes is None else classes
            poses = poses.poses
        if classes is None:
            classes = self.routing.choose(poses) if self.routing else length(poses).argmax(dim=1)
        return self.decoder(mask_poses(poses, classes).flatten(1))

    def classification_loss(
        self, output: Output, targets: Float[Tensor, "b j"], *, progress: float = 1.0
    ) -> Float[Tensor, ""]:
        """The loss that suits the routing, or eq. 7. `progress`, from 0 to 1 over training, is for losses that change on the
        way."""
        if self.routing is not None:
            return self.routing.loss(output.scores, targets, progress=progress)
        return margin_loss(output.scores, targets)

    def imitation_loss(self, output: Output, taught: Float[Tensor, "b j"]) -> Float[Tensor, ""]:
        """How far the scores are from a teacher's: cross-entropy where they come from logits, else the squared distance."""
        if output.logits is not None:
            return cross_entropy(output.logits, taught)
        return score_distance(output.scores, taught)


class SoftmaxModel(CapsuleModel):
    """A network without capsules, or whose capsules are no probabilities: softmax and cross-entropy.

    `poses` are the features that the decoder reads, all of them: there is no class to mask by.
    """

    def reconstruct(
        self, poses: Float[Tensor, "b *f"] | Output, classes: Int[Tensor, "b"] | None = None
    ) -> Float[Tensor, "b c h w"]:
        """Return the picture that the features stand for, whatever the class."""
        if self.decoder is None:
            raise CapsNetError("This model has no decoder, so it cannot reconstruct.")
        return self.decoder(poses.poses if isinstance(poses, Output) else poses)

    def classification_loss(
        self, output: Output, targets: Float[Tensor, "b j"], *, progress: float = 1.0
    ) -> Float[Tensor, ""]:
        """Cross-entropy of the softmax."""
        assert output.logits is not None
        return cross_entropy(output.logits, targets)


def build_decoder(
    decoder: bool | str, features: int, image_shape: ImageShape, *, default: str = "dense"
) -> nn.Module | None:
    """A model's `decoder=` option: False, True (the paper's), "dense" or "conv"."""
    kinds: dict[Any, type[DenseDecoder] | type[ConvDecoder]] = {"dense": DenseDecoder, "conv": ConvDecoder}
    if decoder is False:
        return None
    kind = default if decoder is True else decoder
    if kind not in kinds:
        raise CapsNetError(f"decoder is True, False, 'dense' or 'conv', not {decoder!r}.")
    return kinds[kind](features, image_shape)
