"""Self-attention routing: votes that agree with the other votes for the same parent count for more. No iterations.

Efficient-CapsNet eqs. 4 to 6. The paper builds A_j = U_j U_j^T / sqrt(d), an I x I matrix for each parent, only to sum its
rows. A row's sum is u_i . (sum of all u_k), so A is never built and the cost is linear in I.

Departure: the paper writes sqrt(d) with d the input capsules' size, its authors' program uses the output's. `dimension`
is that d; without it, the output's, which their published weights expect.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.functional.routing.registry import RoutingResult, register_routing
from capsnet.functional.squashing import Squash, length, squash


def _zero_log_prior(i: int, j: int, d: int) -> dict[str, Tensor | nn.Module]:
    return {"log_prior": torch.zeros(j, i)}


@register_routing("self_attention", parameters=_zero_log_prior)
def self_attention_routing(
    votes: Float[Tensor, "b j i d"],
    log_prior: Float[Tensor, "j i"],
    coupling: Float[Tensor, "b j i"] | None = None,
    *,
    dimension: int | None = None,
    squash: Squash = squash,
) -> RoutingResult:
    """Coupling by agreement among the votes (eqs. 5, 6), poses by the coupled sum (eq. 4), squashed (eq. 2)."""
    if coupling is None:
        d = dimension or votes.shape[-1]
        total = votes.sum(dim=2, keepdim=True)
        agreement = (
            _weighted("bjid,bjkd->bji", votes, total, dim=3) / d**0.5
        )  # eq. 5, rows of A summed; k has size 1
        coupling = agreement.softmax(dim=1)  # eq. 6: over the parents
    weights = (coupling + log_prior).unsqueeze(3)
    poses = squash(_weighted("bjid,bjik->bjd", votes, weights, dim=2))  # eq. 4; k has size 1
    return RoutingResult(poses, length(poses), coupling)


def _weighted(equation: str, votes: Tensor, by: Tensor, *, dim: int) -> Tensor:
    """The einsum, a sum over `dim`; where gradients are wanted as a product and a sum, since an einsum's gradients are outer
    products, which matrix kernels are slow at."""
    return (votes * by).sum(dim=dim) if votes.requires_grad else torch.einsum(equation, votes, by)
