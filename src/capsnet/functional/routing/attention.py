"""Attention routing: learned weights read all votes for a parent and say how much each of them counts.

AR-CapsNet (Choi et al. 2019). For each parent, the logit of vote i is a learned linear function of all its votes; the
coupling is their softmax over the *inputs*; the coupled sum goes through a learned linear map and tanh. No iterations, and
no agreement is measured. The learned weights grow with the square of the number of inputs.

Elements lie between -1 and 1, so a pose is at most sqrt(D) long: its activation is its length divided by that.

Letters: B batch, I input capsules, J output capsules, D pose size (E the mapped one, of the same size), K = I.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.functional.routing.registry import RoutingResult, register_routing
from capsnet.functional.squashing import length


def _glorot_uniform(i: int, j: int, d: int) -> dict[str, Tensor | nn.Module]:
    attention, transform = math.sqrt(6 / (d * i + i)), math.sqrt(6 / (d + d))
    return {
        "attention": torch.empty(j, d, i, i).uniform_(-attention, attention),
        "transform": torch.empty(j, d, d).uniform_(-transform, transform),
        "bias": torch.zeros(j, d),
    }


def share_of_longest(poses: Float[Tensor, "*b d"]) -> Float[Tensor, "*b"]:
    """The length as a share of the longest there can be, sqrt(D)."""
    return length(poses) / math.sqrt(poses.shape[-1])


@register_routing("attention", parameters=_glorot_uniform, activation=share_of_longest)
def attention_routing(
    votes: Float[Tensor, "b j i d"],
    attention: Float[Tensor, "j d k i"],
    transform: Float[Tensor, "j d e"],
    bias: Float[Tensor, "j e"],
    coupling: Float[Tensor, "b j i"] | None = None,
) -> RoutingResult:
    """The coupling sums to one over the inputs."""
    if coupling is None:
        coupling = torch.einsum("bjkd,jdki->bji", votes, attention).softmax(dim=2)
    coupled = torch.einsum("bji,bjid->bjd", coupling, votes)
    poses = (torch.einsum("bjd,jde->bje", coupled, transform) + bias).tanh()
    return RoutingResult(poses, share_of_longest(poses), coupling)
