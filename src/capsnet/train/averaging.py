"""Averages over training steps: of the weights, which often generalise better so, and of BatchNorm's statistics.

The moving average of the weights includes the running statistics. Its decay is warmed up as min(decay, (1 + t)/(10 + t)), so
that it soon forgets the initial values.

A norm in evaluation mode inside a model in training mode is frozen: it keeps its statistics.
"""

import copy
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from capsnet.evaluate.mode import restore_modes

Model = TypeVar("Model", bound=nn.Module)


class MovingAverage(Generic[Model]):
    """An averaged copy of a model; `model` is ready to evaluate and to save."""

    def __init__(self, model: Model, decay: float) -> None:
        self.decay = decay
        self.model: Model = copy.deepcopy(model)
        self.model.requires_grad_(False)

    @torch.no_grad()
    def update(self, model: Model, step: int) -> None:
        """Move the average towards the model after step number `step`, counted from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        ours, theirs = ([*m.parameters(), *statistics(m)] for m in (self.model, model))
        torch._foreach_lerp_(ours, theirs, 1 - decay)


def statistics(model: nn.Module, *, learning: bool = False) -> list[Tensor]:
    """Return the statistics that a model keeps: buffers of floats that are saved with it. Others are constants.

    Args:
        learning: leave out those of modules in evaluation mode, which don't change.
    """
    saved = model.state_dict(keep_vars=True)
    return [
        buffer
        for place, module in model.named_modules()
        if module.training or not learning
        for name, buffer in module.named_buffers(place, recurse=False)
        if name in saved and buffer.is_floating_point()
    ]


class RunningStatistics:
    """Make BatchNorm's running statistics a plain mean of the first batches, until that forgets more slowly than the layers'
    own momentum does. With a momentum of 0.01 alone, a short run would be evaluated with the statistics of its initial values.

    A compiled layer has its momentum built in, and would be compiled again for each new one. There the layers replace their
    statistics by the batch's (a momentum of 1), and the mean is taken outside them, after the step.
    """

    def __init__(self, model: nn.Module, *, compiled: bool = False) -> None:
        self.norms = [(norm, norm.momentum) for norm in _norms(model) if norm.momentum is not None]
        self.compiled = compiled
        self.held: list[tuple[Tensor, Tensor]] = []
        if compiled:
            for norm, _ in self.norms:
                norm.momentum = 1.0

    @torch.no_grad()
    def before(self, step: int) -> None:
        """Prepare step number `step`, counted from 0."""
        for norm, momentum in self.norms:
            if not self.compiled:
                norm.momentum = max(momentum, 1 / (step + 1))
        if self.compiled:
            self.held = [(b, b.clone()) for norm, _ in self.norms for b in _statistics(norm)]

    @torch.no_grad()
    def after(self, step: int) -> None:
        """Finish step number `step`."""
        if not self.compiled:
            return
        momenta = [momentum for norm, momentum in self.norms for _ in _statistics(norm)]
        for (statistic, held), momentum in zip(self.held, momenta, strict=True):
            statistic.copy_(torch.lerp(held, statistic, max(momentum, 1 / (step + 1))))


@torch.no_grad()
def take_statistics(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """Replace BatchNorm's running statistics by their plain mean over `batches`, for example of images without augmentation
    where training has only seen augmented ones."""
    norms = [(norm, norm.momentum) for norm in _norms(model)]
    for norm, _ in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a cumulative mean
    modes = [(module, module.training) for module in model.modules()]
    if not model.training:
        model.train()
    for images in batches:
        model(images)
    restore_modes(modes)
    for norm, momentum in norms:
        norm.momentum = momentum


@runtime_checkable
class RunningNorm(Protocol):
    """A normalisation with running statistics, as BatchNorm, SyncBatchNorm and some of InstanceNorm are."""

    running_mean: Tensor | None
    running_var: Tensor | None
    momentum: float | None

    def reset_running_stats(self) -> None: ...
    def train(self, mode: bool = True) -> object: ...


def _statistics(norm: RunningNorm) -> list[Tensor]:
    return [b for b in (norm.running_mean, norm.running_var) if b is not None]


def _norms(model: nn.Module) -> list[RunningNorm]:
    """All norms that learn statistics: all of a model in evaluation mode, those in training mode of one that trains."""
    found = [m for m in model.modules() if isinstance(m, RunningNorm) and (m.training or not model.training)]
    return [norm for norm in found if _statistics(norm)]
