"""Routings of several iterations: with one gradient for all their products, and votes of matrices for few images at a time.

Where kernels can be compiled, matrix votes are never stored (`matrix_votes.py`). Elsewhere, and in class capsules, whose votes
are few, they are; in large batches they are not kept for the backward pass then but computed again. Either way the images
are routed in groups: on a CPU as many as fit its caches, on other devices as many as take some memory.

Letters: B batch, P positions, J parent types at each, I inputs that a position sees, N = 4 the matrices' side, D = N x N.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from capsnet.functional.routing.matrix_votes import MatrixVotes, stored
from capsnet.functional.routing.positions import OverPositions, over_children, softmax_over_positions
from capsnet.functional.routing.products import Loop, Tensors, Votes
from capsnet.kernels.acceleration import accelerates
from capsnet.kernels.matrix_votes import CompiledVotes, from_blocks, in_blocks, usable
from capsnet.kernels.recording import Plan, Products, RecordedVotes, differentiate
from capsnet.layers.routing import Routing

_AT_ONCE_IN_CACHES = 2**23  # elements of the votes of the images routed together on a CPU
_AT_ONCE_IN_MEMORY = 2**27  # the same elsewhere
_KEPT = 2**26  # elements of a batch above which stored votes are computed again for the backward pass


@accelerates(Routing)
def route_faster(routing: Routing, votes: Any, activations: Tensor | None = None, **more: Any) -> Any:
    """The same mathematics, over votes of another kind."""
    if not routing.entry.uses_route:
        return NotImplemented
    if type(votes) is MatrixVotes and all(map(_plain, (votes.poses, votes.weight, votes.offset))):
        votes = GroupedVotes(votes.poses, votes.weight, votes.offset)
    elif type(votes) is Tensor and torch.is_grad_enabled():
        votes = RecordedVotes(votes)
    else:
        return NotImplemented
    if type(more.get("normalise")) is OverPositions:
        more["normalise"] = LeanOverPositions(more["normalise"].seen, more["normalise"].children)
    return Routing.forward(routing, votes, activations, **more)


def _plain(tensor: Tensor | None) -> bool:
    return tensor is None or type(tensor) in (Tensor, nn.Parameter)


class GroupedVotes(MatrixVotes):
    """Matrix votes that are made, and whose gradients are computed, for a group of images at a time."""

    def route(self, loop: Loop, each: Tensors, shared: Tensors, *, centred: bool) -> Tensors:
        """`loop` over each group."""
        b, *sizes = self.shape
        of_one = sizes[0] * sizes[1] * sizes[2]
        at_once = _AT_ONCE_IN_CACHES if self.poses.device.type == "cpu" else _AT_ONCE_IN_MEMORY
        together = max(1, at_once // of_one)
        if centred and self.offset is None and usable(self.poses, self.weight, *each, *shared):
            plan, poses, others = self._compiled(loop)
        else:
            plan, poses, others = self._stored(loop, centred=centred, keep=b * of_one <= _KEPT)
        groups = zip(*(tensor.split(together) for tensor in (poses, *each)), strict=True)
        parts = [differentiate(plan, some, *others, *few, *shared) for some, *few in groups]
        return tuple(map(torch.cat, zip(*parts, strict=True)))

    def _compiled(self, loop: Loop) -> tuple[Plan, Tensor, Tensors]:
        inputs = self.shape[2]

        def recording(poses: Tensor, weight: Tensor) -> CompiledVotes:
            return CompiledVotes(poses, weight, inputs=inputs)

        def written_out(poses: Tensor, weight: Tensor, *small: Tensor) -> Tensors:
            votes = MatrixVotes(from_blocks(poses, inputs), from_blocks(weight, inputs)).stored()
            return loop(Votes(votes, centred=True), *small)

        return Plan(loop, recording, written_out, 2, True), in_blocks(self.poses), (in_blocks(self.weight),)

    def _stored(self, loop: Loop, *, centred: bool, keep: bool) -> tuple[Plan, Tensor, Tensors]:
        offset = self.offset

        def recording(poses: Tensor, weight: Tensor) -> StoredVotes:
            return StoredVotes(poses, weight, offset, centred=centred)

        def written_out(poses: Tensor, weight: Tensor, *small: Tensor) -> Tensors:
            return loop(Votes(MatrixVotes(poses, weight, offset).stored(), centred=centred), *small)

        return Plan(loop, recording, written_out, 2, keep), self.poses, (self.weight,)


class StoredVotes(Products):
    """Matrix votes in memory, whose gradient is taken on to poses and matrices. The offset is a constant."""

    def __init__(self, poses: Tensor, weight: Tensor, offset: Tensor | None, *, centred: bool) -> None:
        self.poses, self.weight = poses, weight
        super().__init__(stored(multiply(poses, weight), offset), centred=centred)

    def release(self) -> Tensors:
        values = self.values
        super().release()
        self.poses = self.weight = values.new_empty(())
        return (values,)

    def restore(self, large: Tensors, kept: Tensors) -> None:
        self.poses, self.weight = (tensor.detach() for tensor in large)
        (self.values,) = kept

    def gradients(self) -> Tensors:
        (total,) = super().gradients()
        b, p, n, _, i = self.poses.shape
        j = len(self.weight)
        gradient = total.transpose(2, 3).unflatten(1, (p, j)).unflatten(3, (n, n))
        # A matrix for each input, rows (b, p, r), columns (j, s); position by position, so that caches hold what is reordered.
        votes = gradient.new_empty(i, b * p, n, j, n)
        for position, block in enumerate(gradient.flatten(0, 1)):
            votes[:, position].copy_(block.permute(3, 1, 0, 2))
        votes = votes.view(i, b * p * n, j * n)
        of_poses = torch.bmm(votes, self.weight.permute(3, 0, 2, 1).reshape(i, j * n, n))
        of_weight = torch.bmm(self.poses.permute(4, 3, 0, 1, 2).reshape(i, n, b * p * n), votes)
        return (
            of_poses.view(i, b, p, n, n).permute(1, 2, 3, 4, 0),
            of_weight.view(i, n, j, n).permute(2, 1, 3, 0),
        )


def multiply(
    poses: Float[Tensor, "b p n n i"], weight: Float[Tensor, "j n n i"]
) -> Float[Tensor, "b p j n n i"]:
    """`compute_matrix_votes` as one multiply-add over all votes for each inner index, where an einsum would copy them into
    another order."""
    left, right = poses.unsqueeze(2).unsqueeze(-2), weight.unsqueeze(1)
    votes = left[..., 0, :, :] * right[:, :, 0]
    for t in range(1, weight.shape[1]):
        votes.addcmul_(left[..., t, :, :], right[:, :, t])
    return votes


class LeanOverPositions(OverPositions):
    """Keeps nothing for the backward pass but the coupling."""

    def __call__(self, logits: Float[Tensor, "b pj i"]) -> Float[Tensor, "b pj i"]:
        at_positions = logits.unflatten(1, (len(self.seen), -1))
        return _Softmax.apply(at_positions, self.seen, self.children).flatten(1, 2)


class _Softmax(torch.autograd.Function):
    """The gradient of a softmax is a function of its result."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, seen: Int[Tensor, "p i"], children: int) -> Tensor:
        coupling = softmax_over_positions(logits, seen, children)
        ctx.save_for_backward(coupling, seen)
        ctx.children = children
        return coupling

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        coupling, seen = ctx.saved_tensors
        weighted = coupling * gradients[0]
        mean = over_children(weighted.sum(dim=2), seen, ctx.children, "sum")
        return weighted.addcmul_(coupling, mean.unsqueeze(2), value=-1), None, None
