"""Votes: what each capsule predicts for each capsule of the layer above.

Efficient-CapsNet eq. 3; with shared matrices, Gu, Tresp 2020; with matrices for poses, Hinton et al. 2018.

Letters: B batch, I input capsules, J output capsules, K input pose size, D output pose size; for poses that are matrices,
N their side and P positions.
"""

import torch
from jaxtyping import Float
from torch import Tensor


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
    """Hinton et al. 2018: each of the I inputs that a position P sees votes with its pose matrix times W_ji."""
    return torch.einsum("bprti,jtsi->bpjrsi", poses, weight)
