"""Gradients with a graph of their own, for gradients of gradients, which hand-written backward passes do not have."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def gradients(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of `function(*inputs)`, computed by PyTorch's operations, so that they can be differentiated again;
    None for inputs without one."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    with torch.enable_grad():
        result = function(*inputs)
        found = iter(torch.autograd.grad(result, wanted, gradient, create_graph=True, allow_unused=True))
    return tuple(next(found) if tensor.requires_grad else None for tensor in inputs)
