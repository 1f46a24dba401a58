"""Heinsen's routing: parents predict the inputs, and use the data of those that they predict best; the rest counts against.

Heinsen 2022, "An Algorithm for Routing Vectors in Sequences", algorithm 2 (the efficient form). In each iteration
- E: every parent predicts each input's pose; the similarity of prediction and input gives, by a softmax over the parents, how
  an input is shared among them (uniformly at first);
- D: an input's presence splits into the data that a parent uses and the data that it ignores;
- M: "bang per bit", the learned benefit of what is used less the learned cost of what is ignored, is the weight of a vote. It
  may be negative; the poses are the weighted sums.

The coupling returned is the shares, which sum to one over the parents.

Departures: the votes are the layer's own, one matrix for each pair, where the paper factors them to save memory, and are
divided by the root of I as its inputs are; after the last iteration the poses are squashed instead of layer-normalised, so
that lengths are scores.

Letters: B batch, I input capsules, J output capsules, K input pose size, D output pose size.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from capsnet.functional.routing.registry import RoutingResult, register_routing
from capsnet.functional.squashing import Squash, length
from capsnet.functional.squashing import squash as efficient_squash


def _as_the_paper(i: int, j: int, d: int, k: int) -> dict[str, Tensor | nn.Module]:
    return {
        "presence": torch.randn(i, k) * 2 / math.sqrt(k),
        "presence_bias": torch.zeros(i),
        "prediction": torch.randn(d, k) / math.sqrt(d),
        "prediction_scale": torch.randn(j, k),
        "prediction_bias": torch.zeros(j, k),
        "similarity": torch.randn(j, i) / math.sqrt(k),
        "similarity_bias": torch.zeros(j, i),
        "benefit": torch.randn(j, i),
        "cost": torch.randn(j, i),
    }


@register_routing("heinsen", parameters=_as_the_paper)
def heinsen_routing(
    votes: Float[Tensor, "b j i d"],
    capsules: Float[Tensor, "b i k"],
    presence: Float[Tensor, "i k"],
    presence_bias: Float[Tensor, "i"],
    prediction: Float[Tensor, "d k"],
    prediction_scale: Float[Tensor, "j k"],
    prediction_bias: Float[Tensor, "j k"],
    similarity: Float[Tensor, "j i"],
    similarity_bias: Float[Tensor, "j i"],
    benefit: Float[Tensor, "j i"],
    cost: Float[Tensor, "j i"],
    coupling: Float[Tensor, "b j i"] | None = None,
    *,
    iterations: int = 2,
    squash: Squash = efficient_squash,
) -> RoutingResult:
    """A coupling that is given is used in a single D and M step."""
    scale = votes.shape[2] ** -0.5
    present = ((capsules * presence).sum(dim=2) * scale + presence_bias).sigmoid().unsqueeze(1)

    def weigh(coupling: Tensor) -> Tensor:
        used = present * coupling  # D step
        weights = benefit * used - cost * (present - used)  # M step
        return torch.einsum("bji,bjid->bjd", weights, votes) * scale

    if coupling is not None:
        poses = squash(weigh(coupling))
        return RoutingResult(poses, length(poses), coupling)
    coupling = torch.zeros_like(votes[..., 0]).softmax(dim=1)
    poses = weigh(coupling)
    for _ in range(iterations - 1):
        expected = F.layer_norm(poses, poses.shape[-1:]) @ prediction
        expected = expected * prediction_scale + prediction_bias
        fit = torch.einsum("bik,bjk->bji", capsules, expected) * similarity + similarity_bias
        coupling = F.logsigmoid(fit).softmax(dim=1)  # E step
        poses = weigh(coupling)
    poses = squash(poses)
    return RoutingResult(poses, length(poses), coupling)
