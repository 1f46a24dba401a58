"""Votes: what each capsule predicts for each capsule of the layer above.

Efficient-CapsNet eq. 3; with shared matrices, Gu, Tresp 2020; with matrices for poses, Hinton et al. 2018.

Letters: B batch, I input capsules, J output capsules, K input pose size, D output pose size; for poses that are matrices,
N their side and P positions.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def compute_votes(
    capsules: Float[Tensor, "b i k"], weight: Float[Tensor, "j i k d"]
) -> Float[Tensor, "b j i d"]:
    """Eq. 3: u_ji = u_i W_ji, one matrix for each pair of capsules."""
    # The product comes out with the inputs outermost; every routing would copy it again for each product of its own.
    return torch.einsum("bik,jikd->bjid", capsules, weight).contiguous()


def compute_shared_votes(
    capsules: Float[Tensor, "b i k"], weight: Float[Tensor, "j k d"]
) -> Float[Tensor, "b j i d"]:
    """u_ji = u_i W_j: one matrix for each parent, whichever capsule votes."""
    return torch.einsum("bik,jkd->bjid", capsules, weight).contiguous()


def compute_matrix_votes(
    poses: Float[Tensor, "b p n n i"], weight: Float[Tensor, "j n n i"]
) -> Float[Tensor, "b p j n n i"]:
    """Hinton et al. 2018: each of the I inputs that a position P sees votes with its pose matrix times W_ji. The inputs come
    innermost in memory, which is how the sums of the routing read fastest."""
    if torch.compiler.is_compiling():
        return torch.einsum("bprti,jtsi->bpjrsi", poses, weight)
    return _MatrixVotes.apply(poses, weight)


class _MatrixVotes(torch.autograd.Function):
    """One multiply-add over all votes for each inner index, where an einsum would copy them into another order."""

    @staticmethod
    def forward(ctx: Any, poses: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(poses, weight)
        left, right = poses.unsqueeze(2).unsqueeze(-2), weight.unsqueeze(1)
        votes = left[..., 0, :, :] * right[:, :, 0]
        for t in range(1, weight.shape[1]):
            votes.addcmul_(left[..., t, :, :], right[:, :, t])
        return votes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        poses, weight = ctx.saved_tensors
        b, p, j, n, _, i = gradient.shape
        # A matrix for each input, rows (b, p, r), columns (j, s); position by position, so that caches hold what is reordered.
        votes = gradient.new_empty(i, b * p, n, j, n)
        for position, block in enumerate(gradient.flatten(0, 1)):
            votes[:, position].copy_(block.permute(3, 1, 0, 2))
        votes = votes.view(i, b * p * n, j * n)
        of_poses = torch.bmm(votes, weight.permute(3, 0, 2, 1).reshape(i, j * n, n))
        of_weight = torch.bmm(poses.permute(4, 3, 0, 1, 2).reshape(i, n, b * p * n), votes)
        return of_poses.view(i, b, p, n, n).permute(1, 2, 3, 4, 0), of_weight.view(i, n, j, n).permute(
            2, 1, 3, 0
        )
