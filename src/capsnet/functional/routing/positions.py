"""Coupling across positions: in convolutional capsules a child is shared by the parents at all positions that see it.

Hinton et al. 2018, section 4 and appendix: the assignment of a child sums to one over all types at all positions whose
receptive field it is in, not over the types of each position on its own.

Letters: B batch, P positions, J parent types at each, I inputs that a position sees, N children in all.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


def seen_children(
    children: tuple[int, int, int], kernel: int, stride: int, device: torch.device | None = None
) -> Int[Tensor, "p i"]:
    """Which of the (types, height, width) children is the i-th that a position sees, counted as `torch.nn.functional.unfold`
    counts: the types outermost."""
    types, height, width = children
    index = torch.arange(types * height * width, device=device).view(types, height, width)
    windows = index.unfold(1, kernel, stride).unfold(2, kernel, stride)
    return windows.permute(1, 2, 0, 3, 4).flatten(2).flatten(0, 1)


@dataclass(frozen=True)
class OverPositions:
    """Each child's shares sum to one over all parents at all positions that see it.

    Args:
        seen: (P, I) which children a position sees.
        children: how many there are.
    """

    seen: Tensor
    children: int

    def __call__(self, logits: Float[Tensor, "b pj i"]) -> Float[Tensor, "b pj i"]:
        at_positions = logits.unflatten(1, (len(self.seen), -1))
        return softmax_over_positions(at_positions, self.seen, self.children).flatten(1, 2)


def softmax_over_positions(
    logits: Float[Tensor, "b p j i"], seen: Int[Tensor, "p i"], children: int
) -> Float[Tensor, "b p j i"]:
    """The softmax of each child over all places that see it."""
    # The types of a position first: what remains to be taken together over positions is as small as the children.
    top = over_children(logits.detach().amax(dim=2), seen, children, "amax")
    mass = (logits - top.unsqueeze(2)).exp_()
    return mass * over_children(mass.sum(dim=2), seen, children, "sum").reciprocal().unsqueeze(2)


def over_children(
    values: Float[Tensor, "b p i"], seen: Int[Tensor, "p i"], children: int, reduce: str
) -> Float[Tensor, "b p i"]:
    """Each child's values taken together, and given back to all places that see it."""
    b = values.shape[0]
    index = seen.reshape(1, -1).expand(b, -1)
    nothing = values.new_full((b, children), -torch.inf if reduce == "amax" else 0)
    return nothing.scatter_reduce(1, index, values.flatten(1), reduce).gather(1, index).view_as(values)
