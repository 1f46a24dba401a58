"""The products that a routing takes with the votes, and how a routing of several iterations goes over them.

An iterative routing multiplies the same votes again and again: by couplings (`weighted_sum`) and by poses (`agreement`). It
states its iterations as a function of `Votes` and gives that to `route`, which calls it. Votes that are not a tensor, such as
`MatrixVotes`, decide by themselves how they are gone over: for a few images at a time, say, or without being stored.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

Tensors = tuple[Tensor, ...]
Loop = Callable[..., Tensors]


def sum_over_inputs(weights: Float[Tensor, "b j i"], values: Float[Tensor, "b j i d"]) -> Tensor:
    """The sum of the votes of each parent, each times its weight."""
    return (weights.unsqueeze(-2) @ values).squeeze(-2)


def dot_over_elements(values: Float[Tensor, "b j i d"], poses: Float[Tensor, "b j d"]) -> Tensor:
    """The dot product of each vote and its parent's pose."""
    if values.stride(-1) == 1:
        return (values @ poses.unsqueeze(-1)).squeeze(-1)
    # Votes stored with the inputs innermost: this order reads them along memory.
    return (poses.unsqueeze(-2) @ values.transpose(-1, -2)).squeeze(-2)


class Votes:
    """Votes, less `centre`, and their products. With `centred=True` the centre is their mean over the inputs, so that sums
    of squares lose no digits to a common offset; else it is zero."""

    def __init__(self, votes: Float[Tensor, "b j i d"], *, centred: bool = False) -> None:
        self.values: Tensor = votes
        self.centre: Tensor = votes.new_zeros(())
        if centred:
            self.centre = votes.detach().mean(dim=2)
            self.values = votes - self.centre.unsqueeze(2)
        self._squares: Tensor | None = None

    @property
    def squares(self) -> Float[Tensor, "b j i d"]:
        if self._squares is None:
            self._squares = self.values.square()
        return self._squares

    def uniform(self) -> Float[Tensor, "1 j i"]:
        """Logits that prefer no parent."""
        return self.values.new_zeros(1, *self.values.shape[1:3])

    def moments(self, weights: Float[Tensor, "b j i"]) -> tuple[Tensor, Tensor, Tensor]:
        """The mass of the votes, their sum, and the sum of their squares."""
        return weights.sum(dim=2), self.weighted_sum(weights), self.weighted_squares(weights)

    def density(self, constant: Tensor, linear: Tensor, quadratic: Tensor) -> Float[Tensor, "b j i"]:
        """constant + linear . v + quadratic . v^2 of each vote."""
        fits = self.agreement(linear) + self.square_agreement(quadratic)
        return fits + constant.unsqueeze(2)

    def weighted_sum(self, weights: Float[Tensor, "b j i"]) -> Float[Tensor, "b j d"]:
        return sum_over_inputs(weights, self.values)

    def weighted_squares(self, weights: Float[Tensor, "b j i"]) -> Float[Tensor, "b j d"]:
        return sum_over_inputs(weights, self.squares)

    def agreement(self, poses: Float[Tensor, "b j d"]) -> Float[Tensor, "b j i"]:
        return dot_over_elements(self.values, poses)

    def square_agreement(self, poses: Float[Tensor, "b j d"]) -> Float[Tensor, "b j i"]:
        return dot_over_elements(self.squares, poses)


@runtime_checkable
class UnmadeVotes(Protocol):
    """Something that stands for votes (B, J, I, D), and goes over them by itself."""

    shape: tuple[int, int, int, int]

    def route(self, loop: Loop, each: Tensors, shared: Tensors, *, centred: bool) -> Tensors: ...


def route(
    loop: Loop,
    votes: Float[Tensor, "b j i d"] | UnmadeVotes,
    *,
    each: Tensors = (),
    shared: Tensors = (),
    centred: bool = False,
) -> Any:
    """`loop(Votes(votes), *each, *shared)`, a tuple of tensors that have the batch first.

    Args:
        each: tensors with the batch first too.
        shared: tensors that all images share.
        centred: whether the loop's sums of squares are taken about the votes' means.
    """
    if isinstance(votes, Tensor):
        return loop(Votes(votes, centred=centred), *each, *shared)
    return votes.route(loop, each, shared, centred=centred)
