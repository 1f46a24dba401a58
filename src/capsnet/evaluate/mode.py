"""A model in evaluation mode for a while, without forgetting which of its modules train."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from torch import nn

Model = TypeVar("Model", bound=nn.Module)


@contextmanager
def evaluating(model: Model) -> Iterator[Model]:
    """Put a model into evaluation mode within a block, then give every module its own mode back: frozen ones stay frozen."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield model
    finally:
        restore_modes(modes)


def restore_modes(modes: list[tuple[nn.Module, bool]]) -> None:
    """Give modules, of which the first holds all others, their modes back."""
    whole, training = modes[0]
    whole.train(training)
    for module, training in modes:
        module.training = training
