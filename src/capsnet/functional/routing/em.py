"""EM routing: parents are Gaussian clusters of votes; tight clusters of present capsules are present themselves.

Hinton, Sabour, Frosst 2018, procedure 1. A parent's cost of explaining its votes falls as they agree; its activation is a
sigmoid of how much cheaper than `beta_a` that is, steeper with every iteration. All densities are logarithms; the variance
has a floor and the masses an addend, so that empty clusters stay finite.

The initial coupling is uniform. `normalise` says among whom a capsule's coupling sums to one: the parents here,
the parents at all positions that see it in convolutional capsules.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from capsnet.errors import CapsNetError
from capsnet.functional.routing.mixture import (
    Component,
    MixtureVotes,
    Moments,
    Normalise,
    fit_mixture,
    over_parents,
)
from capsnet.functional.routing.products import Loop, route
from capsnet.functional.routing.registry import RoutingResult, register_routing

_MASS = 1e-7


def zero_betas(i: int, j: int, d: int) -> dict[str, Tensor | nn.Module]:
    """The learned price of being active, and of explaining a vote, for each parent."""
    return {"beta_a": torch.zeros(j), "beta_u": torch.zeros(j)}


@register_routing("em", parameters=zero_betas)
def em_routing(
    votes: Float[Tensor, "b j i d"],
    beta_a: Float[Tensor, "j"],
    beta_u: Float[Tensor, "j"],
    activations: Float[Tensor, "b i"] | Float[Tensor, "b j i"],
    normalise: Normalise = over_parents,
    *,
    iterations: int = 3,
    steepness: float = 0.01,
    variance_floor: float = 5e-4,
) -> RoutingResult:
    """The coupling is the last iteration's, before it is weighted by the activations."""
    loop = em_loop(normalise, iterations=iterations, steepness=steepness, variance_floor=variance_floor)
    if activations.ndim == 2:
        activations = activations.unsqueeze(1)
    return RoutingResult(*route(loop, votes, beta_a, beta_u, activations, centred=True))


def em_loop(
    normalise: Normalise = over_parents,
    *,
    iterations: int = 3,
    steepness: float = 0.01,
    variance_floor: float = 5e-4,
) -> Loop:
    """`em_routing` of votes in whichever form they come."""
    if min(steepness, variance_floor) <= 0:
        raise CapsNetError("EM routing's steepness and variance_floor are numbers above 0.")

    def iterate(
        votes: MixtureVotes, beta_a: Tensor, beta_u: Tensor, activations: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        def fit(iteration: int, moments: Moments) -> Component:
            slope = steepness * (1 - 0.95 ** (iteration + 1))
            return _m_step(moments, beta_a, beta_u, slope, variance_floor)

        component, coupling = fit_mixture(votes, activations, fit, normalise, iterations)
        return component.pose, component.logit.sigmoid(), coupling

    return iterate


def _m_step(moments: Moments, beta_a: Tensor, beta_u: Tensor, slope: float, floor: float) -> Component:
    """Mean, variance and activation of each cluster; the mean is written less the centre of the moments."""
    mass = (moments.mass + _MASS).unsqueeze(-1)
    mean = (moments.first - _MASS * moments.centre) / mass
    squares = moments.second - 2 * mean * moments.first + moments.mass.unsqueeze(-1) * mean.square()
    variance = (squares / mass).clamp(min=floor)
    log_variance = variance.log()
    cost = (beta_u.unsqueeze(-1) + log_variance / 2).sum(dim=-1) * mass.squeeze(-1)
    logit = slope * (beta_a - cost)
    log_density = (log_variance + math.log(2 * math.pi) + mean.square() / variance).sum(dim=-1) / -2
    return Component(
        F.logsigmoid(logit) + log_density, mean / variance, -0.5 / variance, mean + moments.centre, logit
    )
