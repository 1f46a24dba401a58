"""Several networks as one: each gives its scores, and their mean is the answer.

A mixture is a model like any other: it is saved into one weights folder, opened by name or path, tested, exported, served and
used as a teacher. Its members may be of different models and options. With `views` every member also looks at the image moved
or turned a little (`capsnet.layers.views`), and the mean goes over these answers too; a mixture of one network is that network
with views.

Class capsules of different networks have nothing to do with each other but their lengths. So poses, coupling and the picture
that is reconstructed are those of the first member, of the plain image; the decoders of the others are left out.

Letters: B batch, J classes, V views, C x H x W image.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError
from capsnet.layers.views import Views
from capsnet.models.base import CapsuleModel, Output
from capsnet.registry import ImageShape, create_model, register_model

MOST_MEMBERS = 100
TWO: tuple[tuple[str, dict[str, Any]], ...] = (("base_capsnet", {}), ("base_capsnet", {}))


class MixtureEncoder(nn.Module):
    """The members' encoders side by side.

    Args:
        encoders: of the members.
        views: for `Views`; only the plain image when None.
    """

    def __init__(self, encoders: Sequence[nn.Module], views: str | None) -> None:
        super().__init__()
        self.views = Views(views) if views is not None else None
        # The first comes last, since a model's routing is the last one of its encoder.
        self.others = nn.ModuleList(encoders[1:])
        self.first = encoders[0]

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        seen = images if self.views is None else self.views(images)
        first = self.first(seen, coupling=coupling)
        scores = torch.stack([first.scores, *(other(seen).scores for other in self.others)]).mean(dim=0)
        if self.views is not None:
            scores = scores.unflatten(0, (len(self.views), images.shape[0])).mean(dim=0)
        b = images.shape[0]  # len() would make a traced batch a constant
        coupled = first.coupling[:b] if first.coupling is not None else None
        # A mean of probabilities has no logits of its own; its logarithm is what a softmax would give back.
        logits = scores.clamp_min(1e-12).log() if first.logits is not None else None
        return Output(first.poses[:b], scores, coupled, logits)


@register_model(image_shape=(1, 28, 28), num_classes=10)
def mixture(
    image_shape: ImageShape,
    num_classes: int,
    *,
    decoder: bool | str = True,
    members: Any = TWO,
    views: str | None = None,
) -> CapsuleModel:
    """The mean of several networks' scores; `members` are (model, options), `views` such as "shift,turn=5".

    The decoder is the first member's, if it has one, unless `decoder=False`.
    """
    pairs = all(isinstance(member, Sequence) and len(member) == 2 for member in members)
    if (
        not 1 <= len(members) <= MOST_MEMBERS
        or not pairs
        or not all(isinstance(m[1], Mapping) for m in members)
    ):
        raise CapsNetError(f"members are 1 to {MOST_MEMBERS} pairs of a model and its options.")
    first, *others = (
        create_model(name, image_shape, num_classes, **{**options, **({"decoder": False} if number else {})})
        for number, (name, options) in enumerate(members)
    )
    first.encoder = MixtureEncoder([first.encoder, *(other.encoder for other in others)], views)
    if decoder is False:
        first.decoder = None
    return first


def mix(models: Sequence[CapsuleModel], *, views: str | None = None) -> CapsuleModel:
    """Return a mixture with copies of trained networks' values, in evaluation mode; the card is the first one's."""
    parts = [model.architecture for model in models]
    for part in parts[1:]:
        if (part.image_shape, part.num_classes) != (parts[0].image_shape, parts[0].num_classes):
            raise CapsNetError(
                f"The members of a mixture take the same images and classes; '{parts[0].name}' takes "
                f"{_words(parts[0].image_shape, parts[0].num_classes)}, '{part.name}' "
                f"{_words(part.image_shape, part.num_classes)}."
            )
    members = tuple((part.name, dict(part.options)) for part in parts)
    with torch.random.fork_rng(devices=[]):
        made = create_model(
            "mixture", parts[0].image_shape, parts[0].num_classes, members=members, views=views
        )
    encoder = made.encoder
    assert isinstance(encoder, MixtureEncoder)
    for into, model in zip([encoder.first, *encoder.others], models, strict=True):
        into.load_state_dict(model.encoder.state_dict())
    if made.decoder is not None and models[0].decoder is not None:
        made.decoder.load_state_dict(models[0].decoder.state_dict())
    made.card = models[0].card
    return made.to(next(models[0].parameters()).device).eval()


def _words(shape: ImageShape, classes: int) -> str:
    return f"{'x'.join(map(str, shape))} images of {classes} classes"
