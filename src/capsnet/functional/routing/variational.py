"""Variational Bayes routing: EM routing with distributions over the clusters in place of point estimates.

Ribeiro, Leontidis, Kollias 2020, procedure 1, with diagonal covariances: a Dirichlet over the mixing proportions and a
Gaussian-Wishart for each parent. Priors: alpha 1, kappa 1, nu D + 1, Psi the identity, m zero. A parent is the more active
the smaller its entropy. Poses and activation logits pass through batch normalisation without affine part, which keeps
statistics, so it is given as modules; without them nothing is normalised.

The mixing proportions are those of the J parents that share a position (all of them, in a dense layer).

Letters: B batch, P positions (1 in a dense layer), I input capsules that a position sees, J output capsules at each, D pose
size.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.functional.routing.em import zero_betas
from capsnet.functional.routing.mixture import (
    Component,
    MixtureVotes,
    Moments,
    Normalise,
    by_position,
    fit_mixture,
    over_parents,
)
from capsnet.functional.routing.products import UnmadeVotes, route
from capsnet.functional.routing.registry import RoutingResult, register_routing


def _identity(tensor: Tensor) -> Tensor:
    return tensor


def _betas_and_norms(i: int, j: int, d: int) -> dict[str, Tensor | nn.Module]:
    norms = {name: nn.BatchNorm1d(j, affine=False) for name in ("pose_norm", "activation_norm")}
    return {**zero_betas(i, j, d), **norms}


@register_routing("variational", parameters=_betas_and_norms, activation=None, uses_route=True)
def variational_routing(
    votes: Float[Tensor, "b pj i d"] | UnmadeVotes,
    beta_a: Float[Tensor, "j"],
    beta_u: Float[Tensor, "j"],
    activations: Float[Tensor, "b i"] | Float[Tensor, "b p i"],
    pose_norm: Callable[[Tensor], Tensor] = _identity,
    activation_norm: Callable[[Tensor], Tensor] = _identity,
    normalise: Normalise = over_parents,
    coupling: Float[Tensor, "b pj i"] | None = None,
    *,
    iterations: int = 3,
) -> RoutingResult:
    """The coupling is the last iteration's, before it is weighted by the activations; `normalise` says among whom it sums to
    one. `pose_norm` and `activation_norm` take (B, J, ...)."""
    activations = by_position(activations)
    positions, parents = activations.shape[1], len(beta_a)
    each = (activations,) if coupling is None else (activations, coupling)

    def iterate(votes: MixtureVotes, activations: Tensor, *others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        *given, beta_a, beta_u = others
        beta_a, beta_u = beta_a.repeat(positions), beta_u.repeat(positions)

        def fit(_: int, moments: Moments) -> Component:
            return _posterior(moments, beta_a, beta_u, parents)

        component, coupling = fit_mixture(votes, activations, fit, normalise, iterations, *given)
        return component.pose, component.logit, coupling

    poses, logits, coupling = route(iterate, votes, each=each, shared=(beta_a, beta_u), centred=True)
    poses = _normalised(pose_norm, poses, parents)
    logits = _normalised(activation_norm, logits.unsqueeze(2), parents).squeeze(2)
    return RoutingResult(poses, logits.sigmoid(), coupling)


def _normalised(
    norm: Callable[[Tensor], Tensor], values: Float[Tensor, "b pj d"], parents: int
) -> Float[Tensor, "b pj d"]:
    """Each of the J parents normalised over the batch, the positions and the elements."""
    by_parent = values.unflatten(1, (-1, parents)).transpose(1, 2)
    shape = by_parent.shape[2:]
    return norm(by_parent.flatten(2)).unflatten(2, shape).transpose(1, 2).flatten(1, 2)


def _posterior(moments: Moments, beta_a: Tensor, beta_u: Tensor, parents: int) -> Component:
    """The posterior's expectations for each parent; `offset` is its mean m less the centre of the moments."""
    d = moments.first.shape[-1]
    mass, mass_d = moments.mass, moments.mass.unsqueeze(-1)
    alpha, kappa, nu = 1 + mass, 1 + mass_d, d + 1 + mass
    # Less the centre. An empty parent has no mean; the floor's square, which the gradient divides by, must not underflow.
    mean = moments.first / mass_d.clamp(min=torch.finfo(mass.dtype).tiny ** 0.25)
    scatter = (moments.second - mass_d * mean.square()).clamp(min=0)
    inverse_psi = 1 + scatter + mass_d / kappa * (mean + moments.centre).square()
    pose = (moments.first + mass_d * moments.centre) / kappa
    offset = pose - moments.centre

    total = alpha.unflatten(1, (-1, parents)).sum(dim=2, keepdim=True).expand(-1, -1, parents).flatten(1)
    log_mixing = torch.digamma(alpha) - torch.digamma(total)
    degrees = nu.unsqueeze(-1) - torch.arange(d, dtype=nu.dtype, device=nu.device)
    log_det = torch.digamma(degrees / 2).sum(dim=-1) + d * math.log(2) - inverse_psi.log().sum(dim=-1)
    precision = nu.unsqueeze(-1) / inverse_psi
    distance = d / kappa.squeeze(-1) + (precision * offset.square()).sum(dim=-1)
    log_density = (log_det - d * math.log(2 * math.pi) - distance) / 2

    entropy = (d * math.log(2 * math.pi * math.e) - log_det) / 2
    logit = beta_a - (log_mixing.exp() * entropy + beta_u)
    return Component(log_mixing + log_density, precision * offset, precision / -2, pose, logit)
