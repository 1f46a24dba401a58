"""Self-routing: each capsule decides by its own pose where it goes, as an expert of its own. No agreement, no iterations.

Hahn, Pyeon, Kim 2019, eqs. 2 to 4. The coupling of input i is the softmax, over the parents, of a learned linear map of its
pose; a parent's activation is the share of all input activation that is sent to it, and its pose the mean of its votes, each
weighted by coupling and activation. The activations sum to one over the parents, so class capsules are trained with their
log-likelihood; several classes in one image share it evenly.

A consequence worth knowing: the votes move the poses alone. In the last layer they don't take part in the decision for a
class, and without a decoder their matrices learn nothing.

Departures: the paper's layers are convolutional, with routes for each place in the window, where this has them for each
input; its program takes activations from a branch of its own, where a dense layer here takes what the layer below gives.

Letters: B batch, I input capsules, J output capsules, K input pose size, D output pose size.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.functional.routing.registry import RoutingResult, register_routing

_TINY = 1e-12  # under a mass: a parent that gets nothing has a zero pose
_LEAST = 1e-7  # probability whose logarithm is taken for that of zero


def _glorot_routes(i: int, j: int, d: int, k: int) -> dict[str, Tensor | nn.Module]:
    bound = math.sqrt(6 / (j + k))
    return {"routes": torch.empty(j, i, k).uniform_(-bound, bound)}


def negative_log_likelihood(
    activations: Float[Tensor, "b j"], targets: Float[Tensor, "b j"], progress: float
) -> Float[Tensor, ""]:
    """Of activations that sum to one over the classes; the mean over the batch."""
    shares = targets / targets.sum(dim=1, keepdim=True).clamp(min=1)
    return -(shares * activations.clamp(min=_LEAST).log()).sum(dim=1).mean()


@register_routing("self_routing", parameters=_glorot_routes, activation=None, loss=negative_log_likelihood)
def self_routing(
    votes: Float[Tensor, "b j i d"],
    routes: Float[Tensor, "j i k"],
    capsules: Float[Tensor, "b i k"],
    activations: Float[Tensor, "b i"],
    coupling: Float[Tensor, "b j i"] | None = None,
) -> RoutingResult:
    """The coupling sums to one over the parents."""
    if coupling is None:
        coupling = torch.einsum("bik,jik->bji", capsules, routes).softmax(dim=1)  # eq. 2
    weights = coupling * activations.unsqueeze(1)
    mass = weights.sum(dim=2)
    total = activations.sum(dim=1, keepdim=True).clamp(min=_TINY)
    poses = torch.einsum("bji,bjid->bjd", weights, votes) / mass.clamp(min=_TINY).unsqueeze(-1)  # eq. 4
    return RoutingResult(poses, mass / total, coupling)  # eq. 3
