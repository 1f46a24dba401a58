"""Orthogonal sparse routing: attention among the votes between orthogonal maps, and a coupling that has exact zeros.

After OrthCaps (Geng et al. 2024), section on orthogonal sparse attention routing, without iterations. Its ingredients:
- queries, keys and values are orthogonal maps of the votes, so that capsules that differ stay different. An orthogonal matrix
  is a product of D Householder reflections I - 2 v v^T / |v|^2, whatever the learned vectors v are;
- the coupling is alpha-entmax of the scaled products of queries and keys in place of their softmax, with alpha 1.5
  (Peters et al. 2019): p_j = max(z_j / 2 - tau, 0)^2 with the tau that makes the p_j sum to one. What fits badly gets nothing.

Departures, where the paper has convolutional capsules: the votes are the dense layer's own, and the three orthogonal maps come
after its matrices, which stay free; as in `self_attention`, a vote's logit is the sum of its products with all votes for the
same parent, and parents, not inputs, compete. At first queries and keys are the same map, so that routing starts from plain
agreement. The paper's pruning of primary capsules is a layer of its own and not part of this.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.functional.routing.registry import RoutingResult, register_routing
from capsnet.functional.squashing import Squash, length
from capsnet.functional.squashing import squash as efficient_squash


def _queries_equal_keys(i: int, j: int, d: int) -> dict[str, Tensor | nn.Module]:
    both, values = torch.randn(2, d, d)
    return {"reflections": torch.stack([both, both, values])}


def householder(vectors: Float[Tensor, "*m n d"]) -> Float[Tensor, "*m d d"]:
    """The product of the reflections along the N vectors, an orthogonal matrix."""
    units = vectors * (vectors.square().sum(dim=-1, keepdim=True) + 1e-24).rsqrt()
    matrix = torch.eye(vectors.shape[-1], dtype=vectors.dtype, device=vectors.device)
    for unit in units.unbind(dim=-2):
        matrix = matrix - 2 * (matrix @ unit.unsqueeze(-1)) @ unit.unsqueeze(-2)
    return matrix


def entmax(logits: Float[Tensor, "b j i"]) -> Float[Tensor, "b j i"]:
    """1.5-entmax over the parents (Peters et al. 2019, algorithm 2): for each possible number of parents with a share, the
    threshold that makes these sum to one; the largest number whose smallest logit is above it holds."""
    z = (logits - logits.detach().amax(dim=1, keepdim=True)) / 2
    falling = z.sort(dim=1, descending=True).values
    count = torch.arange(1, z.shape[1] + 1, dtype=z.dtype, device=z.device).view(-1, 1)
    mean = falling.cumsum(dim=1) / count
    scatter = falling.square().cumsum(dim=1) - count * mean.square()
    left = (1 - scatter) / count
    possible = left > 0
    # The inner `where` keeps the root away from zero, whose infinite slope would turn 0 * inf into NaN.
    thresholds = mean - torch.where(possible, torch.where(possible, left, 1).sqrt(), 0)
    held = (possible & (thresholds <= falling)).sum(dim=1, keepdim=True).clamp(min=1)
    return (z - thresholds.gather(1, held - 1)).relu().square()


@register_routing("orthogonal_sparse", parameters=_queries_equal_keys)
def orthogonal_sparse_routing(
    votes: Float[Tensor, "b j i d"],
    reflections: Float[Tensor, "m d d"],
    coupling: Float[Tensor, "b j i"] | None = None,
    *,
    squash: Squash = efficient_squash,
) -> RoutingResult:
    """The coupling sums to one over the parents. `reflections`: the vectors of queries, keys and values."""
    queries, keys, values = householder(reflections).unbind(dim=0)
    if coupling is None:
        total = votes.sum(dim=2)
        # u Q . (sum of all u_k) K: the attention matrix, I x I, is never built.
        against = torch.einsum("bjd,de,fe->bjf", total, keys, queries)
        coupling = entmax(torch.einsum("bjid,bjd->bji", votes, against) / votes.shape[-1] ** 0.5)
    poses = squash(torch.einsum("bji,bjid->bjd", coupling, votes) @ values)
    return RoutingResult(poses, length(poses), coupling)
