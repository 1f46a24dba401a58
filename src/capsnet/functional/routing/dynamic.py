"""Dynamic routing: a capsule sends more to the parents whose poses agree with its votes.

Sabour et al. 2017, procedure 1. Logits start at zero; in every iteration the coupling is their softmax over the parents,
the poses are the squashed sums, and the agreement of votes and poses is added to the logits. As in the authors' program,
gradients flow through all iterations and the bias, where there is one, is added in each of them.

`leaky` is their program's variant: one more logit, always zero, takes part in the softmax and is then dropped, so that a
capsule that fits nowhere may go nowhere. Its coupling sums to less than one.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from capsnet.functional.routing.products import UnmadeVotes, Votes, route
from capsnet.functional.routing.registry import RoutingResult, register_routing
from capsnet.functional.squashing import Squash, length, squash_sabour


def _softmax(logits: Float[Tensor, "b j i"]) -> Float[Tensor, "b j i"]:
    return logits.softmax(dim=1)


def _leaky_softmax(logits: Float[Tensor, "b j i"]) -> Float[Tensor, "b j i"]:
    return F.pad(logits, (0, 0, 0, 1)).softmax(dim=1)[:, :-1]


@register_routing("dynamic", uses_route=True)
def dynamic_routing(
    votes: Float[Tensor, "b j i d"] | UnmadeVotes,
    bias: Float[Tensor, "j d"] | None = None,
    coupling: Float[Tensor, "b j i"] | None = None,
    *,
    iterations: int = 3,
    squash: Squash = squash_sabour,
    leaky: bool = False,
) -> RoutingResult:
    """Procedure 1; the coupling is the last iteration's and sums to one over the parents."""
    normalise = _leaky_softmax if leaky else _softmax
    shared = () if bias is None else (bias,)

    def iterate(votes: Votes, *bias: Tensor) -> tuple[Tensor, Tensor]:
        logits = votes.values.new_zeros(votes.values.shape[:3])
        for iteration in range(iterations):
            coupling = normalise(logits)
            poses = squash(sum(bias, votes.weighted_sum(coupling)))
            if iteration + 1 < iterations:
                logits = logits + votes.agreement(poses)
        return poses, coupling

    def share(votes: Votes, coupling: Tensor, *bias: Tensor) -> tuple[Tensor, Tensor]:
        return squash(sum(bias, votes.weighted_sum(coupling))), coupling

    if coupling is None:
        poses, coupling = route(iterate, votes, shared=shared)
    else:
        poses, coupling = route(share, votes, each=(coupling,), shared=shared)
    return RoutingResult(poses, length(poses), coupling)


@register_routing("leaky", uses_route=True)
def leaky_routing(
    votes: Float[Tensor, "b j i d"] | UnmadeVotes,
    bias: Float[Tensor, "j d"] | None = None,
    coupling: Float[Tensor, "b j i"] | None = None,
    *,
    iterations: int = 3,
    squash: Squash = squash_sabour,
) -> RoutingResult:
    """Dynamic routing in which a capsule may keep a part to itself."""
    return dynamic_routing(votes, bias, coupling, iterations=iterations, squash=squash, leaky=True)
