"""One training step: the loss of a batch, its gradients, the optimiser, the averages.

The training loop, the scikit-learn estimator and the benchmarks all take their steps here, so that a recipe means the same
everywhere. Everything random in step number n follows from the seed and n (randomness.py).

Letters: B batch, K classes in an image.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet import kernels
from capsnet.config import Recipe
from capsnet.data.base import Batch
from capsnet.functional.losses import reconstruction_loss
from capsnet.models.base import CapsuleModel
from capsnet.train.averaging import MovingAverage, RunningStatistics
from capsnet.train.distributed import WHOLE, Share, Team
from capsnet.train.prepare import Plan, build_optimizer
from capsnet.train.randomness import derive_seed, seed_dropout
from capsnet.train.schedule import learning_rate
from capsnet.train.selection import hardest
from capsnet.train.teacher import Teacher


def training_loss(
    model: CapsuleModel,
    batch: Batch,
    recipe: Recipe,
    progress: float,
    share: Share = WHOLE,
    teacher: Teacher | None = None,
) -> Tensor:
    """Return the model's classification loss, part of which is to imitate the teacher if there is one, plus the weighted
    reconstruction of each class by its own capsule."""
    b, k = batch.classes.shape
    mine = share.of(batch)
    output = model(mine.images)
    loss = model.classification_loss(output, mine.targets, progress=progress)
    if teacher is not None:
        loss = (1 - recipe.teacher_share) * loss + teacher.loss(model, output, mine)
    loss = share.weight(b) * loss
    if model.decoder is None or recipe.reconstruction_weight == 0:
        return loss
    some = max(1, round(b * recipe.reconstruct_fraction))
    weight, some = share.weight(some) * recipe.reconstruction_weight / k, share.count(some)
    for n in range(k):
        picture = model.reconstruct(output.poses[:some], mine.classes[:some, n])
        loss = loss + weight * reconstruction_loss(picture, mine.originals[:some, n])
    return loss


def smooth(targets: Float[Tensor, "b j"], share: float) -> Float[Tensor, "b j"]:
    """Spread a share of each image's targets evenly over all classes."""
    return (1 - share) * targets + share * targets.mean(dim=1, keepdim=True)


class Objective(nn.Module):
    """A network with its loss as one module: everything that gradients flow through."""

    def __init__(self, model: CapsuleModel, recipe: Recipe, share: Share, teacher: Teacher | None) -> None:
        super().__init__()
        self.model, self.recipe, self.share, self.teacher = model, recipe, share, teacher

    def forward(self, batch: Batch, progress: float) -> Tensor:
        return training_loss(self.model, batch, self.recipe, progress, self.share, self.teacher)


class Learner:
    """A model with everything else that a training step changes: the optimiser and the averages.

    Args:
        model: on its device; it is accelerated (capsnet.kernels) and trained in place.
        plan: how many steps there will be, which fixes the learning rate of each.
        seed: fixes what dropout draws.
        team: the processes that train together; this process alone when left out.
        precision: bf16 computes convolutions and the decoder in bfloat16.
        compile: compile the encoder and the decoder with `torch.compile`.
        teacher: is imitated beside the labels.
    """

    def __init__(
        self,
        model: CapsuleModel,
        recipe: Recipe,
        plan: Plan,
        *,
        seed: int = 0,
        team: Team | None = None,
        precision: str = "float32",
        compile: bool = False,
        teacher: Teacher | None = None,
    ) -> None:
        self.model, self.recipe, self.plan, self.seed = model, recipe, plan, seed
        self.team = team or Team(next(model.parameters()).device)
        kernels.accelerate(model)
        self.autocast = precision == "bf16"
        self.norms = RunningStatistics(model, compiled=compile)
        self.optimizer = build_optimizer(model, recipe)
        self.average = MovingAverage(model, recipe.average) if recipe.average else None
        if compile:
            for part in filter(None, (model.encoder, model.decoder)):
                part.compile()
        unused = model.decoder is not None and recipe.reconstruction_weight == 0
        self.objective = self.team.parallel(Objective(model, recipe, self.team.share, teacher), unused=unused)

    @property
    def trained(self) -> CapsuleModel:
        """The model to evaluate and to keep: the moving average where the recipe has one."""
        return self.average.model if self.average else self.model

    def release(self) -> None:
        """Let go of what the processes share; there are no more steps after it."""
        del self.objective

    def learning_rate(self, step: int) -> float:
        return learning_rate(self.recipe, step, self.plan.steps_per_epoch, self.plan.total_steps)

    def step(self, batch: Batch, number: int) -> float:
        """Take step `number`, counted from 0, on a batch that all processes share; return its mean loss."""
        images, device = len(batch.images), self.team.device
        if self.recipe.label_smoothing:
            batch = batch._replace(targets=smooth(batch.targets, self.recipe.label_smoothing))
        seed_dropout(device, derive_seed(self.seed, "dropout", number, *self.team.place))
        self.norms.before(number)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(number)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.autocast):
            if self.recipe.learn_from < 1:
                batch = hardest(self.model, batch, self.recipe.learn_from)
            loss = self.objective(batch, number / self.plan.total_steps) * (len(batch.images) / images)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.norms.after(number)
        self.team.average_statistics(self.model)
        if self.average:
            self.average.update(self.model, number)
        return self.team.mean(loss.item())
