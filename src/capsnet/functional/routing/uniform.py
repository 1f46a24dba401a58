"""No routing: every capsule is shared equally among the parents.

Paik, Kwak, Kim 2019, who found that routing by agreement often does no better than this.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

from jaxtyping import Float
from torch import Tensor

from capsnet.functional.routing.products import sum_over_inputs
from capsnet.functional.routing.registry import RoutingResult, register_routing
from capsnet.functional.squashing import Squash, length, squash_sabour


@register_routing("uniform")
def uniform_routing(
    votes: Float[Tensor, "b j i d"],
    bias: Float[Tensor, "j d"] | None = None,
    coupling: Float[Tensor, "b j i"] | None = None,
    *,
    squash: Squash = squash_sabour,
) -> RoutingResult:
    """The squashed sum of the votes, each weighted by 1/J."""
    if coupling is None:
        share = 1 / votes.shape[1]
        total = votes.sum(dim=2) * share
        coupling = votes.new_full(votes.shape[:3], share)
    else:
        total = sum_over_inputs(coupling, votes)
    poses = squash(total if bias is None else total + bias)
    return RoutingResult(poses, length(poses), coupling)
