"""Training on tensors in memory, without a folder, a validation set or a test: what the scikit-learn estimator fits with.

Its steps (step.py), order, schedule and randomness are those of the training loop, so that a recipe means the same in both.

Letters: N images, C x H x W image.
"""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from capsnet import kernels
from capsnet.config import Recipe
from capsnet.data.base import Batch
from capsnet.errors import CapsNetError
from capsnet.models.base import CapsuleModel
from capsnet.train.order import epoch_order
from capsnet.train.prepare import plan_run
from capsnet.train.step import Learner


def train_on_arrays(
    model: CapsuleModel,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, "n"],
    recipe: Recipe,
    seed: int,
) -> tuple[CapsuleModel, list[float]]:
    """Train on images as the model takes them, on their device; return the trained model and the mean loss of each epoch."""
    plan = plan_run(recipe, len(labels))
    learner = Learner(model, recipe, plan, seed=seed)
    targets = F.one_hot(labels, model.architecture.num_classes).to(images.dtype)
    model.train()
    losses: list[float] = []
    for epoch in range(plan.epochs):
        order = epoch_order(seed, epoch, len(labels), 1).to(images.device)
        steps = range(epoch * plan.steps_per_epoch, min((epoch + 1) * plan.steps_per_epoch, plan.total_steps))
        total, seen = 0.0, 0
        for step, rows in zip(steps, order.split(recipe.batch_size), strict=False):
            batch = Batch(images[rows], targets[rows], labels[rows, None], images[rows, None])
            total, seen = total + learner.step(batch, step) * len(rows), seen + len(rows)
        losses.append(total / seen)
        if not abs(losses[-1]) < float("inf"):
            raise CapsNetError(
                f"The loss is no longer a finite number in epoch {epoch + 1}: lower the learning rate."
            )
    return kernels.plain(learner.trained).eval(), losses
