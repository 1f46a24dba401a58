"""Learning from a teacher (`--teacher`): another network's scores and poses, beside the labels (Hinton et al. 2015).

The teacher sees each training batch as the network does, augmented, and the network is also trained to give the same scores:
for capsules the same lengths, by their squared distance, for a softmax by the cross-entropy with the teacher's probabilities.
With `pose_weight` the class capsules' poses are imitated too, number by number. A teacher may be a mixture, and of any size.

On pairs of digits a teacher of single digits may see the two apart (`teacher_apart`): then each digit alone says what its
class's capsule should hold, and the scores to imitate are, for each class, the larger of the two.

Letters: B batch, J classes, D pose size, K classes in an image.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from capsnet import kernels
from capsnet.config import Config, Recipe
from capsnet.data.base import Batch, DataSet
from capsnet.errors import CapsNetError
from capsnet.functional.losses import pose_distance
from capsnet.models.base import CapsuleModel, Output
from capsnet.saving import checksum, load


class Taught(NamedTuple):
    """What there is to imitate: scores of all classes, and the poses of some of them (B, K, D), those of `classes`."""

    scores: Float[Tensor, "b j"]
    poses: Tensor
    classes: Int[Tensor, "b k"]


class Teacher:
    """A network that is imitated. It is no part of the model that learns, so it is neither trained nor saved with it."""

    def __init__(self, model: CapsuleModel, recipe: Recipe) -> None:
        self.model = kernels.accelerate(model.eval().requires_grad_(False))
        self.recipe = recipe

    @property
    def digest(self) -> str:
        """The SHA-256 of its values, which says which teacher it was."""
        return checksum({name: t.detach().cpu().contiguous() for name, t in self.model.state_dict().items()})

    @torch.no_grad()
    def look(self, batch: Batch) -> Taught:
        """Return what the teacher makes of a batch."""
        if not self.recipe.teacher_apart:
            output = self.model(batch.images)
            every = torch.arange(output.scores.shape[1], device=batch.images.device)
            return Taught(output.scores, output.poses, every.expand(len(batch.images), -1))
        output = self.model(batch.originals.flatten(0, 1))
        scores, poses = (part.unflatten(0, batch.classes.shape) for part in (output.scores, output.poses))
        if poses.ndim == 4:  # each picture's own class
            at = batch.classes[:, :, None, None].expand(-1, -1, 1, poses.shape[-1])
            poses = poses.gather(2, at).squeeze(2)
        return Taught(scores.amax(dim=1), poses, batch.classes)

    def loss(self, model: CapsuleModel, output: Output, batch: Batch) -> Float[Tensor, ""]:
        """Return how far a network's output for a batch is from the teacher's; a mean over the batch."""
        taught = self.look(batch)
        loss = self.recipe.teacher_share * model.imitation_loss(output, taught.scores)
        if self.recipe.pose_weight:
            at = taught.classes[:, :, None].expand(-1, -1, output.poses.shape[-1])
            loss = loss + self.recipe.pose_weight * pose_distance(output.poses.gather(1, at), taught.poses)
        return loss


def find_teacher(
    config: Config, dataset: DataSet, model: CapsuleModel, device: torch.device
) -> Teacher | None:
    """Open the teacher that a configuration names; refuse one that does not fit the data or the model."""
    recipe = config.recipe
    if config.teacher is None:
        if recipe.pose_weight or recipe.teacher_apart:
            raise CapsNetError("pose_weight and teacher_apart need a --teacher.")
        return None
    teacher = load(config.teacher)
    check_teacher(teacher, config.teacher, dataset)
    if recipe.pose_weight:
        theirs, ours = (pose_shape(network) for network in (teacher, model))
        if theirs != ours or len(ours) != 2:
            raise CapsNetError(
                f"pose_weight: the teacher's poses are {'x'.join(map(str, theirs))}, those of '{config.model}' "
                f"{'x'.join(map(str, ours))}; only class capsules of one size can be imitated."
            )
    # Channels last is the convolutions' own layout.
    teacher.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Teacher(teacher, recipe)


def check_teacher(teacher: CapsuleModel, name: str, dataset: DataSet) -> None:
    """Refuse a teacher that takes other images, or has other classes or another order of them."""
    if teacher.image_shape != dataset.image_shape:
        theirs, ours = ("x".join(map(str, shape)) for shape in (teacher.image_shape, dataset.image_shape))
        raise CapsNetError(f"The teacher '{name}' takes images of {theirs}; '{dataset.name}' has {ours}.")
    names = teacher.card.names_of(teacher.architecture.num_classes)
    if teacher.architecture.num_classes != dataset.num_classes or (
        teacher.card.class_names and names != dataset.class_names
    ):
        raise CapsNetError(
            f"The teacher '{name}' has other classes than '{dataset.name}', or another order of them."
        )
    prepared = teacher.card.preprocessing
    if prepared and prepared != dataset.preprocessing.to_dict():
        raise CapsNetError(
            f"The teacher '{name}' takes pixels prepared in another way than those of '{dataset.name}'."
        )


@torch.no_grad()
def pose_shape(model: CapsuleModel) -> tuple[int, ...]:
    """Return the shape of what a model gives as the poses of one image."""
    training = [(module, module.training) for module in model.modules()]
    model.eval()
    device = next(model.parameters()).device
    shape = tuple(model(torch.zeros(1, *model.image_shape, device=device)).poses.shape[1:])
    for module, mode in training:
        module.training = mode
    return shape
