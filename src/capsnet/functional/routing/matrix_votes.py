"""Votes of pose matrices, which a layer of convolutional capsules need not make all at once.

Hinton, Sabour, Frosst 2018: a vote is the child's 4x4 pose matrix times a learned 4x4 matrix. The votes are by far the
largest tensor of such a layer, 21 MB for an image in the paper's first one, so without gradients they are made for some
images at a time.

Letters: B batch, P positions, J parent types at each, I inputs that a position sees, N = 4 the matrices' side, D = N x N.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from capsnet.functional.routing.products import Loop, Tensors, route
from capsnet.functional.votes import compute_matrix_votes

_AT_ONCE = 2**26  # elements of the votes that are made together where no gradient needs all of them


class MatrixVotes:
    """The votes (B, P x J, I, D) of `poses` times `weight`, to each of which `offset` is added."""

    def __init__(
        self,
        poses: Float[Tensor, "b p n n i"],
        weight: Float[Tensor, "j n n i"],
        offset: Float[Tensor, "d i"] | None = None,
    ) -> None:
        self.poses, self.weight, self.offset = poses, weight, offset
        (b, p, n, _, i), j = poses.shape, len(weight)
        self.shape = b, p * j, i, n * n

    def route(self, loop: Loop, each: Tensors, shared: Tensors, *, centred: bool) -> Tensors:
        """`loop` over the stored votes."""
        b, pj, i, d = self.shape
        together = max(1, _AT_ONCE // (pj * i * d))
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or b <= together:
            return route(loop, self.stored(), each=each, shared=shared, centred=centred)
        parts = []
        for poses, *some in zip(*(t.split(together) for t in (self.poses, *each)), strict=True):
            votes = MatrixVotes(poses, self.weight, self.offset).stored()
            parts.append(route(loop, votes, each=tuple(some), shared=shared, centred=centred))
        return tuple(map(torch.cat, zip(*parts, strict=True)))

    def stored(self) -> Float[Tensor, "b pj i d"]:
        """All of them, as a tensor."""
        return stored(compute_matrix_votes(self.poses, self.weight), self.offset)


def stored(
    votes: Float[Tensor, "b p j n n i"], offset: Float[Tensor, "d i"] | None
) -> Float[Tensor, "b pj i d"]:
    """Votes as routings read them, with the inputs innermost in memory."""
    votes = votes.flatten(3, 4)
    if offset is not None:
        votes = votes + offset
    return votes.flatten(1, 2).transpose(2, 3)
