"""Votes: what each capsule predicts for each capsule of the layer above.

Efficient-CapsNet eq. 3.

Letters: B batch, I input capsules, J output capsules, K input pose size, D output pose size.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def compute_votes(
    capsules: Float[Tensor, "b i k"], weight: Float[Tensor, "j i k d"]
) -> Float[Tensor, "b j i d"]:
    """Eq. 3: u_ji = u_i W_ji, one matrix for each pair of capsules."""
    return torch.einsum("bik,jikd->bjid", capsules, weight)
