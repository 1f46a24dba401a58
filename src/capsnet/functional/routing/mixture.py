"""Parents as the components of a Gaussian mixture over the votes: what EM and variational Bayes have in common.

By turns, the components are fitted to their votes (from three sums: how many, their sum, the sum of their squares) and each
vote is shared among the components by how well it fits them. A diagonal Gaussian's log density is a constant plus a linear
and a quadratic form of the vote, so both steps are matrix products with the votes and with their squares, and nothing of
the votes' size is made in between. The sums are taken about the mean vote of each parent, which the results do not
depend on, so that a common offset of the votes costs no digits.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor


class Moments(NamedTuple):
    """What a component is fitted to: the mass of its votes, their sum and sum of squares about `centre`."""

    mass: Float[Tensor, "b j"]
    first: Float[Tensor, "b j d"]
    second: Float[Tensor, "b j d"]
    centre: Float[Tensor, "b j d"]


class Component(NamedTuple):
    """A fitted parent: its log density (of a vote less the centre) is constant + linear . v + quadratic . v^2."""

    constant: Float[Tensor, "b j"]
    linear: Float[Tensor, "b j d"]
    quadratic: Float[Tensor, "b j d"]
    pose: Float[Tensor, "b j d"]
    logit: Float[Tensor, "b j"]


@runtime_checkable
class MixtureVotes(Protocol):
    """All that the components need of the votes: two passes over them, each the other's derivative."""

    centre: Tensor

    def uniform(self) -> Float[Tensor, "1 j i"]: ...
    def moments(self, weights: Float[Tensor, "b j i"]) -> tuple[Tensor, Tensor, Tensor]: ...
    def density(self, constant: Tensor, linear: Tensor, quadratic: Tensor) -> Float[Tensor, "b j i"]: ...


Fit = Callable[[int, Moments], Component]
Normalise = Callable[[Float[Tensor, "b j i"]], Float[Tensor, "b j i"]]


def over_parents(logits: Float[Tensor, "b j i"]) -> Float[Tensor, "b j i"]:
    """Each input's shares sum to one over the parents."""
    return logits.softmax(dim=1)


def by_position(activations: Float[Tensor, "b *p i"]) -> Float[Tensor, "b p i"]:
    """How present the inputs of each position are; in a dense layer there is only one."""
    return activations.unsqueeze(1) if activations.ndim == 2 else activations


def fit_mixture(
    votes: MixtureVotes,
    activations: Float[Tensor, "b p i"],
    fit: Fit,
    normalise: Normalise,
    iterations: int,
    given: Float[Tensor, "b j i"] | None = None,
) -> tuple[Component, Float[Tensor, "b j i"]]:
    """The components after the last fit, and the coupling that they were fitted with. The parents of a position come one after
    the other, and see the same activations. With a coupling that is `given` there is only the last fit."""
    coupling = given
    if coupling is None:
        coupling = normalise(votes.uniform()).expand(activations.shape[0], -1, -1)
    for iteration in range(0 if given is None else iterations - 1, iterations):
        weights = coupling.unflatten(1, (activations.shape[1], -1)) * activations.unsqueeze(2)
        component = fit(iteration, Moments(*votes.moments(weights.flatten(1, 2)), votes.centre))
        if iteration + 1 < iterations:
            coupling = normalise(votes.density(component.constant, component.linear, component.quadratic))
    return component, coupling
