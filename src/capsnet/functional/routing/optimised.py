"""Routing as optimisation: couplings and unit poses that minimise a clustering loss, with a KL term that slows them down.

Wang, Liu 2018. With couplings c that sum to one over the parents and directions s of length at most one, they minimise

    - sum_ij c_ij <u_ij, s_j>  +  strength * KL(c || reference)

by turns: for given c the best s_j is the direction of sum_i c_ij u_ij; for given s the best c_ij is proportional to
reference_ij exp(<u_ij, s_j> / strength). With the coupling of the step before as the reference ("last") this is how they
read dynamic routing; with the uniform coupling ("uniform") the KL term is an entropy, and it is the routing they propose.

Departure: the poses returned are the coupled sums, squashed, so that lengths are scores.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

from jaxtyping import Float
from torch import Tensor

from capsnet.errors import CapsNetError
from capsnet.functional.routing.products import UnmadeVotes, Votes, route
from capsnet.functional.routing.registry import RoutingResult, register_routing
from capsnet.functional.squashing import Squash, length
from capsnet.functional.squashing import squash as efficient_squash


@register_routing("optimised", uses_route=True)
def optimised_routing(
    votes: Float[Tensor, "b j i d"] | UnmadeVotes,
    coupling: Float[Tensor, "b j i"] | None = None,
    *,
    iterations: int = 3,
    strength: float = 1.0,
    reference: str = "last",
    squash: Squash = efficient_squash,
) -> RoutingResult:
    """The coupling is the last iteration's and sums to one over the parents."""
    if reference not in ("last", "uniform"):
        raise CapsNetError(f"reference is 'last' or 'uniform', not '{reference}'.")
    keep = 1.0 if reference == "last" else 0.0

    def iterate(votes: Votes) -> tuple[Tensor, Tensor]:
        logits = votes.values.new_zeros(votes.values.shape[:3])
        for iteration in range(iterations):
            coupling = logits.softmax(dim=1)
            coupled = votes.weighted_sum(coupling)
            if iteration + 1 < iterations:
                logits = keep * logits + votes.agreement(_direction(coupled)) / strength
        return squash(coupled), coupling

    def share(votes: Votes, coupling: Tensor) -> tuple[Tensor, Tensor]:
        return squash(votes.weighted_sum(coupling)), coupling

    if coupling is None:
        poses, coupling = route(iterate, votes)
    else:
        poses, coupling = route(share, votes, each=(coupling,))
    return RoutingResult(poses, length(poses), coupling)


def _direction(s: Float[Tensor, "b j d"]) -> Float[Tensor, "b j d"]:
    """The vector at length one, or zero where it is zero, with finite gradients."""
    return s * (s.square().sum(dim=-1, keepdim=True) + 1e-12).rsqrt()
