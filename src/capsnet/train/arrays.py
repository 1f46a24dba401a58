"""Training on tensors in memory, without a folder, a validation set or a test: what the estimator fits with.

The parts are the big loop's own (its loss, order, schedule, average, and randomness from the seed and the step's number), so
that a recipe means the same in both.

Letters: N images, C x H x W image.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from capsnet import kernels
from capsnet.config import Recipe
from capsnet.data.base import Batch
from capsnet.errors import CapsNetError
from capsnet.models.base import CapsuleModel
from capsnet.train.averaging import MovingAverage, RunningStatistics
from capsnet.train.loop import epoch_order, training_loss
from capsnet.train.prepare import build_optimizer, plan_run
from capsnet.train.randomness import derive_seed
from capsnet.train.schedule import learning_rate


def train_on_arrays(
    model: CapsuleModel,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, "n"],
    recipe: Recipe,
    seed: int,
) -> tuple[CapsuleModel, list[float]]:
    """Trains on images as the model takes them, on their device; gives the trained model and the mean loss of each epoch."""
    kernels.accelerate(model)
    plan = plan_run(recipe, len(labels))
    optimizer = build_optimizer(model, recipe)
    norms = RunningStatistics(model)
    average = MovingAverage(model, recipe.average) if recipe.average else None
    targets = F.one_hot(labels, model.architecture.num_classes).to(images.dtype)
    model.train()
    losses: list[float] = []
    for epoch in range(plan.epochs):
        order = epoch_order(seed, epoch, len(labels), 1).to(images.device)
        steps = range(epoch * plan.steps_per_epoch, min((epoch + 1) * plan.steps_per_epoch, plan.total_steps))
        total, seen = 0.0, 0
        for step, rows in zip(steps, order.split(recipe.batch_size), strict=False):
            batch = Batch(images[rows], targets[rows], labels[rows, None], images[rows, None])
            torch.manual_seed(derive_seed(seed, "dropout", step))
            norms.follow(step)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(recipe, step, plan.steps_per_epoch, plan.total_steps)
            loss = training_loss(model, batch, recipe, step / plan.total_steps)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if average:
                average.update(model, step)
            total, seen = total + loss.item() * len(rows), seen + len(rows)
        losses.append(total / seen)
        if not torch.tensor(losses[-1]).isfinite():
            raise CapsNetError(
                f"The loss is no longer a finite number in epoch {epoch + 1}: lower the learning rate."
            )
    trained = average.model if average else model
    return kernels.plain(trained).eval(), losses
