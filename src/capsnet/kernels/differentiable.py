"""Gradients with a graph of their own, for gradients of gradients, which hand-written backward passes do not have."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def gradients(
    function: Callable[..., Any], inputs: Sequence[Tensor], gradient: Tensor | Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """The gradients of `function(*inputs)`, a tensor or several, computed by PyTorch's operations, so that they can be
    differentiated again; None for inputs without one."""
    with torch.enable_grad():
        # Of each input by itself, although one may have been computed from another.
        aliases = [tensor.view_as(tensor) for tensor in inputs]
        results = function(*aliases)
        if isinstance(gradient, Tensor):
            results, gradient = (results,), (gradient,)
        pairs = [(r, g) for r, g in zip(results, gradient, strict=True) if g is not None and r.requires_grad]
        wanted = [alias for alias in aliases if alias.requires_grad]
        found = iter(
            torch.autograd.grad(
                [r for r, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True
            )
        )
    return tuple(next(found) if alias.requires_grad else None for alias in aliases)
