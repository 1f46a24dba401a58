"""A moving average of the weights, BatchNorm's running statistics included, which often generalises better than the last step.

The decay is warmed up as min(decay, (1 + t)/(10 + t)), so that the average forgets the initial values early on.
"""

import copy
from collections.abc import Iterable
from typing import Generic, TypeVar

import torch
from torch import nn

Model = TypeVar("Model", bound=nn.Module)


class MovingAverage(Generic[Model]):
    """Keeps an averaged copy of a model; `model` is ready to evaluate and to save."""

    def __init__(self, model: Model, decay: float) -> None:
        self.decay = decay
        self.model: Model = copy.deepcopy(model)
        self.model.requires_grad_(False)

    @torch.no_grad()
    def update(self, model: Model, step: int) -> None:
        """Moves the average towards the model after step number `step`, from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(_floats(self.model), _floats(model), 1 - decay)


def _floats(model: nn.Module) -> list[torch.Tensor]:
    return [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]


class RunningStatistics:
    """BatchNorm's running statistics as a plain mean of the first batches, until that forgets more slowly than its own
    momentum does: with a momentum of 0.01, a short run would otherwise be evaluated with the initial values' statistics."""

    def __init__(self, model: nn.Module) -> None:
        self.norms = [(norm, norm.momentum) for norm in _norms(model) if norm.momentum is not None]

    def follow(self, step: int) -> None:
        """To be called before step number `step`, from 0."""
        for norm, momentum in self.norms:
            norm.momentum = max(momentum, 1 / (step + 1))


@torch.no_grad()
def take_statistics(model: nn.Module, batches: Iterable[torch.Tensor]) -> None:
    """BatchNorm's running statistics anew, as the plain mean over `batches`: those of unvaried images where training has seen
    varied ones only."""
    norms = [(norm, norm.momentum) for norm in _norms(model)]
    for norm, _ in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a cumulative mean
    training = model.training
    model.train()
    for images in batches:
        model(images)
    model.train(training)
    for norm, momentum in norms:
        norm.momentum = momentum


def _norms(model: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    return [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
