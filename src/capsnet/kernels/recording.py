"""One gradient for all the products that a routing takes with the votes.

A routing of several iterations multiplies the same votes again and again: by couplings (`weighted_sum`) and by poses
(`agreement`). Automatic differentiation would write a gradient as large as the votes for each product and add them up.
But each of them is an outer product of an (I) and a (D) vector, so `differentiate` collects the factors while it
differentiates the small tensors, and writes the votes' gradient once, as a single matrix product. The votes themselves are
kept once, however many the iterations.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from capsnet.functional.routing.products import Loop, Tensors, Votes, dot_over_elements, sum_over_inputs
from capsnet.kernels import differentiable


@runtime_checkable
class Recording(Protocol):
    """Stands for the votes in a loop that is differentiated: it makes them, or what they are made of, a constant, and knows
    their gradient once the loop has been gone through backwards."""

    anchor: Tensor

    def release(self) -> Tensors:
        """Give up everything large, since this object may outlive the graph; return what is to be kept beside the votes."""
        ...

    def restore(self, large: Tensors, kept: Tensors) -> None: ...

    def gradients(self) -> Tensors: ...


class Plan(NamedTuple):
    """How a loop is to be differentiated.

    Args:
        recording: made of the large tensors.
        written_out: what the loop gives, of all tensors and by PyTorch's operations alone.
        large: how many tensors come first that are the votes, or that the votes are made of.
        keep: whether the loop's small tensors are kept for the backward pass, or computed again.
    """

    loop: Loop
    recording: Callable[..., Recording]
    written_out: Callable[..., Tensors]
    large: int
    keep: bool


def differentiate(plan: Plan, *tensors: Tensor) -> Tensors:
    """The loop over the first tensors' votes, given the other tensors."""
    if not torch.is_grad_enabled():
        return plan.loop(plan.recording(*tensors[: plan.large]), *tensors[plan.large :])
    return _Route.apply(plan, *tensors)


class RecordedVotes:
    """Stored votes (B, J, I, D) that a routing goes over with a gradient that is written once."""

    def __init__(self, votes: Float[Tensor, "b j i d"]) -> None:
        self.votes = votes
        b, j, i, d = votes.shape
        self.shape = b, j, i, d

    def route(self, loop: Loop, each: Tensors, shared: Tensors, *, centred: bool) -> Tensors:
        def recording(votes: Tensor) -> Recording:
            return Products(votes, centred=centred)

        def written_out(votes: Tensor, *small: Tensor) -> Tensors:
            return loop(Votes(votes, centred=centred), *small)

        return differentiate(Plan(loop, recording, written_out, 1, True), self.votes, *each, *shared)


class Products(Votes):
    """Votes whose products note the factors of their gradient instead of computing it."""

    def __init__(self, votes: Tensor, *, centred: bool) -> None:
        super().__init__(votes, centred=centred)
        # Every product depends on it, so that every product is differentiated.
        self.anchor = votes.new_zeros((), requires_grad=True)
        self.factors: dict[str, list[tuple[Tensor, Tensor]]] = {"values": [], "squares": []}

    def release(self) -> Tensors:
        self.values, self._squares = self.values.new_empty(()), None
        self.factors = {"values": [], "squares": []}
        return ()

    def restore(self, large: Tensors, kept: Tensors) -> None:
        (votes,) = large
        self.values = votes.detach() - self.centre.unsqueeze(2) if self.centre.ndim else votes.detach()

    def weighted_sum(self, weights: Tensor) -> Tensor:
        return _WeightedSum.apply(self, "values", weights, self.anchor)

    def weighted_squares(self, weights: Tensor) -> Tensor:
        return _WeightedSum.apply(self, "squares", weights, self.anchor)

    def agreement(self, poses: Tensor) -> Tensor:
        return _Agreement.apply(self, "values", poses, self.anchor)

    def square_agreement(self, poses: Tensor) -> Tensor:
        return _Agreement.apply(self, "squares", poses, self.anchor)

    def gradients(self) -> Tensors:
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
    def forward(ctx: Any, votes: Products, kind: str, weights: Tensor, anchor: Tensor) -> Tensor:
        ctx.votes, ctx.kind = votes, kind
        ctx.save_for_backward(weights)
        return sum_over_inputs(weights, getattr(votes, kind))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (weights,) = ctx.saved_tensors
        ctx.votes.factors[ctx.kind].append((weights, gradients[0]))
        wanted = ctx.needs_input_grad[2]
        values = getattr(ctx.votes, ctx.kind)
        return None, None, dot_over_elements(values, gradients[0]) if wanted else None, None


class _Agreement(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, votes: Products, kind: str, poses: Tensor, anchor: Tensor) -> Tensor:
        ctx.votes, ctx.kind = votes, kind
        ctx.save_for_backward(poses)
        return dot_over_elements(getattr(votes, kind), poses)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (poses,) = ctx.saved_tensors
        ctx.votes.factors[ctx.kind].append((gradients[0], poses))
        wanted = ctx.needs_input_grad[2]
        values = getattr(ctx.votes, ctx.kind)
        return None, None, sum_over_inputs(gradients[0], values) if wanted else None, None


class _Recorded(NamedTuple):
    """A loop that has been gone through, with the graph of its small tensors."""

    recording: Recording
    leaves: list[Tensor]
    outputs: Tensors


def _record(plan: Plan, tensors: Tensors) -> _Recorded:
    recording = plan.recording(*(t.detach() for t in tensors[: plan.large]))
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_(t.requires_grad) for t in tensors[plan.large :]]
        outputs = plan.loop(recording, *leaves)
    return _Recorded(recording, leaves, outputs)


class _Route(torch.autograd.Function):
    """Differentiates a loop inside itself: a small graph whose only large inputs, the votes, are constants to it."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, *tensors: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.plan, ctx.count = plan, len(tensors)
        if not plan.keep:
            ctx.save_for_backward(*tensors)
            return plan.loop(plan.recording(*tensors[: plan.large]), *tensors[plan.large :])
        recorded = _record(plan, tensors)
        kept = recorded.recording.release()
        ctx.recording, ctx.leaves = recorded.recording, len(recorded.leaves)
        ctx.save_for_backward(*tensors, *recorded.leaves, *recorded.outputs, *kept)
        ctx.outputs = len(recorded.outputs)
        return tuple(output.detach() for output in recorded.outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        plan, saved = ctx.plan, ctx.saved_tensors
        tensors = saved[: ctx.count]
        if torch.is_grad_enabled():  # the gradients are to be differentiated again
            return None, *differentiable.gradients(plan.written_out, tensors, gradients)
        if plan.keep:
            leaves = saved[ctx.count : ctx.count + ctx.leaves]
            outputs = saved[ctx.count + ctx.leaves :][: ctx.outputs]
            recorded = _Recorded(ctx.recording, list(leaves), outputs)
            recorded.recording.restore(tensors[: plan.large], saved[ctx.count + ctx.leaves + ctx.outputs :])
        else:
            recorded = _record(plan, tensors)
        return None, *_gradients(recorded, gradients, ctx.needs_input_grad[1:], plan.large)


def _gradients(
    recorded: _Recorded, gradients: tuple[Tensor | None, ...], needed: tuple[bool, ...], large: int
) -> list[Tensor | None]:
    """Those of all tensors."""
    recording, leaves, outputs = recorded
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    pairs = [(o, g) for o, g in zip(outputs, gradients, strict=True) if g is not None and o.requires_grad]
    found = iter(
        torch.autograd.grad(
            [o for o, _ in pairs],
            [recording.anchor, *wanted],
            [g for _, g in pairs],
            retain_graph=True,
            allow_unused=True,
        )[1:]
    )
    small = [next(found) if leaf.requires_grad else None for leaf in leaves]
    of_large = recording.gradients() if any(needed[:large]) else (None,) * large
    recording.release()
    return [*of_large, *small]
