"""EM routing: parents are Gaussian clusters of votes; tight clusters of present capsules are present themselves.

Hinton, Sabour, Frosst 2018, procedure 1. A parent's cost of explaining its votes falls as they agree; its activation is a
sigmoid of how much cheaper than `beta_a` that is, steeper with every iteration. All densities are logarithms; the variance
has a floor and the masses an addend, so that empty clusters stay finite.

The initial coupling is uniform. `normalise` says among whom a capsule's coupling sums to one: the parents in a dense layer,
the parents at all positions that see it in convolutional capsules.

Class capsules are trained with the spread loss, whose margin grows from 0.2 to 0.9 over the training. Their activations
start near one half and leave it slowly: the margin loss, which wants most of them near zero at once, would first unlearn what
tells the classes apart.

Letters: B batch, P positions (1 in a dense layer), I input capsules that a position sees, J output capsules at each, D pose
size.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from capsnet.errors import CapsNetError
from capsnet.functional.losses import spread_loss
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

_MASS = 1e-7


def zero_betas(i: int, j: int, d: int) -> dict[str, Tensor | nn.Module]:
    """The learned price of being active, and of explaining a vote, for each parent."""
    return {"beta_a": torch.zeros(j), "beta_u": torch.zeros(j)}


def growing_spread_loss(
    activations: Float[Tensor, "b j"], targets: Float[Tensor, "b j"], progress: float
) -> Float[Tensor, ""]:
    """Hinton et al. 2018 eq. 3, with a margin that grows with `progress`, from 0 to 1 over the training."""
    return spread_loss(activations, targets, margin=0.2 + 0.7 * progress)


@register_routing("em", parameters=zero_betas, activation=None, loss=growing_spread_loss, uses_route=True)
def em_routing(
    votes: Float[Tensor, "b pj i d"] | UnmadeVotes,
    beta_a: Float[Tensor, "j"],
    beta_u: Float[Tensor, "j"],
    activations: Float[Tensor, "b i"] | Float[Tensor, "b p i"],
    normalise: Normalise = over_parents,
    coupling: Float[Tensor, "b pj i"] | None = None,
    *,
    iterations: int = 3,
    steepness: float = 0.01,
    variance_floor: float = 5e-4,
) -> RoutingResult:
    """The coupling is the last iteration's, before it is weighted by the activations."""
    if min(steepness, variance_floor) <= 0:
        raise CapsNetError("EM routing's steepness and variance_floor are numbers above 0.")
    activations = by_position(activations)
    positions = activations.shape[1]
    each = (activations,) if coupling is None else (activations, coupling)

    def iterate(votes: MixtureVotes, activations: Tensor, *others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        *given, beta_a, beta_u = others
        beta_a, beta_u = beta_a.repeat(positions), beta_u.repeat(positions)

        def fit(iteration: int, moments: Moments) -> Component:
            slope = steepness * (1 - 0.95 ** (iteration + 1))
            return _m_step(moments, beta_a, beta_u, slope, variance_floor)

        component, coupling = fit_mixture(votes, activations, fit, normalise, iterations, *given)
        return component.pose, component.logit.sigmoid(), coupling

    return RoutingResult(*route(iterate, votes, each=each, shared=(beta_a, beta_u), centred=True))


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
