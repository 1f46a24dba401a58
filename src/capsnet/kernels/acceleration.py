"""The pass that accelerates a model, and the register of what it knows to accelerate."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any, TypeVar

from torch import Tensor, nn

from capsnet.kernels import available
from capsnet.kernels.switch import enabled, warn

Fast = Callable[..., Any]
Model = TypeVar("Model", bound=nn.Module)

_FAST: dict[type[nn.Module], Fast] = {}


def accelerates(kind: type[nn.Module]) -> Callable[[Fast], Fast]:
    """Register a function as the fast `forward` of exactly this type of module: see `capsnet.kernels`."""

    def register(fast: Fast) -> Fast:
        _FAST[kind] = fast
        return fast

    return register


def accelerate(model: Model) -> Model:
    """Give every module of a model that an accelerator is registered for its fast `forward`, and return the model.

    Nothing else about the model changes: its types, parameters, hooks, state and copies are those of the plain one. With
    kernels switched off nothing changes at all.
    """
    for module in model.modules() if enabled() else ():
        if type(module) in _FAST and not _is_replaced(module):
            module.__dict__["forward"] = MethodType(forward, module)
    return model


def plain(model: Model) -> Model:
    """Undo `accelerate`, and return the model."""
    for module in model.modules():
        if is_accelerated(module):
            del module.__dict__["forward"]
    return model


@contextmanager
def accelerated(model: Model) -> Iterator[Model]:
    """Accelerate a model within a block, if it isn't already."""
    before = [module for module in model.modules() if is_accelerated(module)]
    try:
        yield accelerate(model)
    finally:
        plain(model)
        for module in before:
            module.__dict__["forward"] = MethodType(forward, module)


def is_accelerated(module: nn.Module) -> bool:
    """Whether this very module has a fast `forward`."""
    return getattr(module.__dict__.get("forward"), "__func__", None) is forward


# It has this name so that a pickled model finds its class's own when it is read.
def forward(module: nn.Module, *arguments: Any, **options: Any) -> Any:
    """The fast forward of a module where it applies, else its class's own."""
    if _may_accelerate(module, (*arguments, *options.values())):
        result = _FAST[type(module)](module, *arguments, **options)
        if result is not NotImplemented:
            return result
    return type(module).forward(module, *arguments, **options)


def _may_accelerate(module: nn.Module, arguments: tuple[Any, ...]) -> bool:
    """Whether nobody could tell the difference: no hook or replaced `forward` below, nothing that follows PyTorch's operations,
    no tensors of other types."""
    try:
        return (
            not available.observed()  # first, as it is what a compiler of models may look into
            and enabled()
            and type(module) in _FAST
            and all(type(a) in (Tensor, nn.Parameter) for a in arguments if isinstance(a, Tensor))
            and not available.all_hooked()
            and not any(_watched(below) for below in module.modules() if below is not module)
        )
    except available.Missing as reason:
        warn(f"this PyTorch has changed ({reason}).")
        return False


def _watched(module: nn.Module) -> bool:
    return available.hooked(module) or _is_replaced(module)


def _is_replaced(module: nn.Module) -> bool:
    """Whether someone else has given this module a `forward` of its own. (A pickled fast one comes back as its class's.)"""
    own = getattr(module.__dict__.get("forward"), "__func__", None)
    return "forward" in module.__dict__ and own not in (forward, type(module).forward)
