"""The products that iterative routings take with the votes, and one gradient for all of them.

A routing of several iterations multiplies the same votes again and again: by couplings (`weighted_sum`) and by poses
(`agreement`). Automatic differentiation would write a gradient as large as the votes for each product and add them up.
But every one of them is an outer product of an (I) and a (D) vector, so `route` collects the factors while it
differentiates the small tensors, and writes the votes' gradient once, as a single matrix product. The votes themselves are
kept once, however many the iterations.

While compiling, or without gradients, the plain products are used: a compiler does its own fusing.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor


def _sum_over_inputs(weights: Tensor, values: Tensor) -> Tensor:
    return (weights.unsqueeze(-2) @ values).squeeze(-2)


def _dot_over_elements(values: Tensor, poses: Tensor) -> Tensor:
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
        return _sum_over_inputs(weights, self.values)

    def weighted_squares(self, weights: Float[Tensor, "b j i"]) -> Float[Tensor, "b j d"]:
        return _sum_over_inputs(weights, self.squares)

    def agreement(self, poses: Float[Tensor, "b j d"]) -> Float[Tensor, "b j i"]:
        return _dot_over_elements(self.values, poses)

    def square_agreement(self, poses: Float[Tensor, "b j d"]) -> Float[Tensor, "b j i"]:
        return _dot_over_elements(self.squares, poses)


Loop = Callable[..., tuple[Tensor, ...]]


def route(loop: Loop, votes: Float[Tensor, "b j i d"], *tensors: Tensor, centred: bool = False) -> Any:
    """`loop(Votes(votes), *tensors)`, a tuple of tensors, with the votes' gradient written once."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return loop(Votes(votes, centred=centred), *tensors)
    return differentiate(loop, partial(_RecordingVotes, centred=centred), (votes,), tensors)


@runtime_checkable
class Recording(Protocol):
    """What stands for the votes in a loop that is differentiated: it makes them, or what they are made of, a constant, and
    knows their gradient once the loop has been gone through backwards."""

    anchor: Tensor

    def release(self) -> tuple[Tensor, ...]: ...
    def restore(self, *kept: Tensor) -> None: ...
    def gradients(self) -> tuple[Tensor, ...]: ...


def differentiate(
    loop: Loop, recording: Callable[..., Recording], large: tuple[Tensor, ...], small: tuple[Tensor, ...]
) -> Any:
    """`loop(recording(*large), *small)`, where the gradient of the large tensors is the recording's to give."""
    return _Route.apply(loop, recording, len(large), *large, *small)


class _RecordingVotes(Votes):
    """Votes whose products note the factors of their gradient instead of computing it."""

    def __init__(self, votes: Tensor, *, centred: bool) -> None:
        super().__init__(votes, centred=centred)
        # Every product depends on it, so that every product is differentiated.
        self.anchor = votes.new_zeros((), requires_grad=True)
        self.factors: dict[str, list[tuple[Tensor, Tensor]]] = {"values": [], "squares": []}

    def release(self) -> tuple[Tensor, ...]:
        """Gives the votes away, to be kept by the graph and not by this object, which may live longer."""
        values, self.values, self._squares = self.values, self.values.new_empty(()), None
        self.factors = {"values": [], "squares": []}
        return (values,)

    def restore(self, *kept: Tensor) -> None:
        (self.values,) = kept

    def weighted_sum(self, weights: Tensor) -> Tensor:
        return _WeightedSum.apply(self, "values", weights, self.anchor)

    def weighted_squares(self, weights: Tensor) -> Tensor:
        return _WeightedSum.apply(self, "squares", weights, self.anchor)

    def agreement(self, poses: Tensor) -> Tensor:
        return _Agreement.apply(self, "values", poses, self.anchor)

    def square_agreement(self, poses: Tensor) -> Tensor:
        return _Agreement.apply(self, "squares", poses, self.anchor)

    def gradients(self) -> tuple[Tensor, ...]:
        total = None
        if self.factors["squares"]:
            self.factors["squares"] = [(2 * inputs, elements) for inputs, elements in self.factors["squares"]]
            total = self._outer("squares").mul_(self.values)
        if self.factors["values"]:
            total = self._outer("values", total)
        return (torch.zeros_like(self.values) if total is None else total,)

    def _outer(self, kind: str, add_to: Tensor | None = None) -> Tensor:
        """The sum of all outer products as one matrix product, in the votes' own memory layout."""
        b, j, i, d = self.values.shape
        inputs = torch.stack([f[0] for f in self.factors[kind]], dim=2).reshape(b * j, -1, i)
        elements = torch.stack([f[1] for f in self.factors[kind]], dim=2).reshape(b * j, -1, d)
        if self.values.stride(-1) == 1:
            one, other = inputs.transpose(1, 2), elements
        else:
            one, other = elements.transpose(1, 2), inputs
        if add_to is None:
            total = torch.bmm(one, other)
        elif self.values.stride(-1) == 1:
            total = add_to.reshape(b * j, i, d).baddbmm_(one, other)
        else:
            total = add_to.transpose(2, 3).reshape(b * j, d, i).baddbmm_(one, other)
        total = total.unflatten(0, (b, j))
        return total if self.values.stride(-1) == 1 else total.transpose(2, 3)


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, votes: _RecordingVotes, kind: str, weights: Tensor, anchor: Tensor) -> Tensor:
        ctx.votes, ctx.kind = votes, kind
        ctx.save_for_backward(weights)
        return _sum_over_inputs(weights, getattr(votes, kind))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (weights,) = ctx.saved_tensors
        ctx.votes.factors[ctx.kind].append((weights, gradients[0]))
        wanted = ctx.needs_input_grad[2]
        return (
            None,
            None,
            _dot_over_elements(getattr(ctx.votes, ctx.kind), gradients[0]) if wanted else None,
            None,
        )


class _Agreement(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, votes: _RecordingVotes, kind: str, poses: Tensor, anchor: Tensor) -> Tensor:
        ctx.votes, ctx.kind = votes, kind
        ctx.save_for_backward(poses)
        return _dot_over_elements(getattr(votes, kind), poses)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (poses,) = ctx.saved_tensors
        ctx.votes.factors[ctx.kind].append((gradients[0], poses))
        wanted = ctx.needs_input_grad[2]
        return (
            None,
            None,
            _sum_over_inputs(gradients[0], getattr(ctx.votes, ctx.kind)) if wanted else None,
            None,
        )


class _Route(torch.autograd.Function):
    """Differentiates `loop` inside itself: a small graph whose only large inputs, the votes, are constants to it."""

    @staticmethod
    def forward(
        ctx: Any, loop: Loop, recording: Callable[..., Recording], count: int, *tensors: Tensor
    ) -> Any:
        ctx.set_materialize_grads(False)
        ctx.recording = recording(*(t.detach() for t in tensors[:count]))
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_(t.requires_grad) for t in tensors[count:]]
            outputs = loop(ctx.recording, *leaves)
        kept = ctx.recording.release()
        ctx.large, ctx.kept, ctx.small = count, len(kept), len(leaves)
        ctx.save_for_backward(*kept, *leaves, *outputs)
        return tuple(output.detach() for output in outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        kept, saved = ctx.saved_tensors[: ctx.kept], ctx.saved_tensors[ctx.kept :]
        leaves, outputs = saved[: ctx.small], saved[ctx.small :]
        ctx.recording.restore(*kept)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        pairs = [(o, g) for o, g in zip(outputs, gradients, strict=True) if g is not None and o.requires_grad]
        found = iter(
            torch.autograd.grad(
                [o for o, _ in pairs],
                [ctx.recording.anchor, *wanted],
                [g for _, g in pairs],
                retain_graph=True,
                allow_unused=True,
            )[1:]
        )
        small = [next(found) if leaf.requires_grad else None for leaf in leaves]
        wanted_large = any(ctx.needs_input_grad[3 : 3 + ctx.large])
        large = ctx.recording.gradients() if wanted_large else (None,) * ctx.large
        ctx.recording.release()
        return None, None, None, *large, *small
