"""Inverted dot-product attention: parents compete for each capsule, and layer normalisation takes the squash's place.

Tsai et al. 2020, procedure 1. The agreement is the parent's pose (the query) times the vote (the key), its softmax is
over the parents, where attention's is over the keys. Poses start at zero, so the first coupling is uniform.

Departures: their last layer reads a class's score off its pose with one more linear map. Here the last iteration's sum is
squashed instead of layer-normalised, so that lengths are scores as everywhere else (a layer-normalised pose always has the
same length). Their iterations run concurrently in all layers, which in one layer is this.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from capsnet.functional.routing.products import UnmadeVotes, Votes, route
from capsnet.functional.routing.registry import RoutingResult, register_routing
from capsnet.functional.squashing import Squash, length
from capsnet.functional.squashing import squash as efficient_squash


def _unit_norm(i: int, j: int, d: int) -> dict[str, Tensor | nn.Module]:
    return {"norm_weight": torch.ones(d), "norm_bias": torch.zeros(d)}


@register_routing("inverted", parameters=_unit_norm, uses_route=True)
def inverted_routing(
    votes: Float[Tensor, "b j i d"] | UnmadeVotes,
    norm_weight: Float[Tensor, "d"],
    norm_bias: Float[Tensor, "d"],
    coupling: Float[Tensor, "b j i"] | None = None,
    *,
    iterations: int = 3,
    squash: Squash = efficient_squash,
) -> RoutingResult:
    """The coupling is the last iteration's and sums to one over the parents."""

    def iterate(votes: Votes, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        coupling = votes.values.new_zeros(votes.values.shape[:3]).softmax(dim=1)
        for _ in range(iterations - 1):
            poses = F.layer_norm(votes.weighted_sum(coupling), weight.shape, weight, bias)
            coupling = votes.agreement(poses).softmax(dim=1)
        return squash(votes.weighted_sum(coupling)), coupling

    def share(votes: Votes, coupling: Tensor) -> tuple[Tensor, Tensor]:
        return squash(votes.weighted_sum(coupling)), coupling

    if coupling is None:
        poses, coupling = route(iterate, votes, shared=(norm_weight, norm_bias))
    else:
        poses, coupling = route(share, votes, each=(coupling,))
    return RoutingResult(poses, length(poses), coupling)
