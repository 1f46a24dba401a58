"""Coupling across positions: in convolutional capsules a child is shared by the parents at all positions that see it.

Hinton et al. 2018, section 4 and appendix: the assignment of a child sums to one over all types at all positions whose
receptive field it is in, not over the types of each position on its own.

Letters: B batch, P positions, J parent types at each, I inputs that a position sees, N children in all.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from capsnet.functional.routing.mixture import Normalise


def seen_children(
    children: tuple[int, int, int], kernel: int, stride: int, device: torch.device | None = None
) -> Int[Tensor, "p i"]:
    """Which of the (types, height, width) children is the i-th that a position sees, counted as `torch.nn.functional.unfold`
    counts: the types outermost."""
    types, height, width = children
    index = torch.arange(types * height * width, device=device).view(types, height, width)
    windows = index.unfold(1, kernel, stride).unfold(2, kernel, stride)
    return windows.permute(1, 2, 0, 3, 4).flatten(2).flatten(0, 1)


def over_positions(seen: Int[Tensor, "p i"], children: int) -> Normalise:
    """Each child's shares sum to one over all parents at all positions that see it."""

    def normalise(logits: Float[Tensor, "b pj i"]) -> Float[Tensor, "b pj i"]:
        at_positions = logits.unflatten(1, (len(seen), -1))
        softmax = _softmax if torch.compiler.is_compiling() else _Softmax.apply
        return softmax(at_positions, seen, children).flatten(1, 2)

    return normalise


def _softmax(logits: Float[Tensor, "b p j i"], seen: Tensor, children: int) -> Float[Tensor, "b p j i"]:
    # The types of a position first: what remains to be taken together over positions is as small as the children.
    top = _over_children(logits.detach().amax(dim=2), seen, children, "amax")
    mass = (logits - top.unsqueeze(2)).exp_()
    return mass * _over_children(mass.sum(dim=2), seen, children, "sum").reciprocal().unsqueeze(2)


def _over_children(
    values: Float[Tensor, "b p i"], seen: Int[Tensor, "p i"], children: int, reduce: str
) -> Float[Tensor, "b p i"]:
    """Each child's values taken together, and given back to all places that see it."""
    b = len(values)
    index = seen.reshape(1, -1).expand(b, -1)
    nothing = values.new_full((b, children), -torch.inf if reduce == "amax" else 0)
    return nothing.scatter_reduce(1, index, values.flatten(1), reduce).gather(1, index).view_as(values)


class _Softmax(torch.autograd.Function):
    """Keeps nothing but its result, of which the gradient of a softmax is a function."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, seen: Tensor, children: int) -> Tensor:
        coupling = _softmax(logits, seen, children)
        ctx.save_for_backward(coupling, seen)
        ctx.children = children
        return coupling

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        coupling, seen = ctx.saved_tensors
        weighted = coupling * gradient
        mean = _over_children(weighted.sum(dim=2), seen, ctx.children, "sum")
        return weighted.addcmul_(coupling, mean.unsqueeze(2), value=-1), None, None
