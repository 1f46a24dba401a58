"""Coupling across positions: in convolutional capsules a child is shared by the parents at all positions that see it.

Hinton et al. 2018, section 4 and appendix: the assignment of a child sums to one over all types at all positions whose
receptive field it is in, not over the types of each position on its own.

Letters: B batch, P positions, J parent types at each, I inputs that a position sees, N children in all.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

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
    p, i = seen.shape

    def normalise(logits: Float[Tensor, "b pj i"]) -> Float[Tensor, "b pj i"]:
        b = logits.shape[0]
        at_position = logits.view(b, p, -1, i)
        # The types of a position first: what remains to be added up over positions is as small as the children.
        total = at_position.logsumexp(dim=2).view(b, p * i)
        index = seen.reshape(1, p * i).expand(b, -1)
        with torch.no_grad():
            top = (
                total.new_full((b, children), -torch.inf)
                .scatter_reduce(1, index, total, "amax")
                .gather(1, index)
            )
        mass = (total - top).exp()
        share = mass / mass.new_zeros(b, children).scatter_add(1, index, mass).gather(1, index)
        return (at_position.softmax(dim=2) * share.view(b, p, 1, i)).view(b, -1, i)

    return normalise
