"""Matrix votes that are never stored: what mixture routings sum over them, made anew in every pass.

The votes of an image for a layer of convolutional capsules (Hinton et al. 2018) are tens of megabytes, and a routing goes over
them some twenty times with its gradients: that is memory-bound. But a vote is four multiplications of a child's 4x4
pose by a 4x4 weight, both of which stay in the caches: the passes below make each vote in registers and use it at once.

Mixture routings need two passes only, and the gradient of each is the other: `moments` sums shares times (1, v, v^2) over
the inputs, `density` is constant + linear . v + quadratic . v^2. The votes' own gradient is a sum of outer products, which
a third pass forms and takes on to poses and weight, without storing it either.

Letters: B batch, P positions, J parent types at each, I inputs that a position sees, D = 16 elements of a pose or a matrix;
Q blocks of L inputs, as many as a register holds, the last one filled up with zeros; N = 4.
"""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from capsnet.functional.routing.products import Tensors
from capsnet.kernels import compiled

SIDE = 4
_SOURCE = Path(__file__).with_suffix(".c")
_NAMES = {torch.float32: "float", torch.float64: "double"}


@lru_cache
def load_passes(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The compiled passes for numbers of this type, or None."""
    return compiled.compile_source(_SOURCE, f"-DREAL={_NAMES[dtype]}") if dtype in _NAMES else None


def usable(*tensors: Tensor) -> bool:
    """Whether the passes may read these."""
    dtype = tensors[0].dtype
    return (
        all(tensor.dtype == dtype for tensor in tensors)
        and compiled.readable(*tensors)
        and not torch.is_autocast_enabled("cpu")
        and load_passes(dtype) is not None
    )


def in_blocks(matrices: Float[Tensor, "... n n i"]) -> Float[Tensor, "... q d l"]:
    """Blocks of inputs, each with the elements of its matrices one after the other."""
    lanes = _inputs_in_a_block(matrices.dtype)
    return _fill(matrices.flatten(-3, -2)).unflatten(-1, (-1, lanes)).transpose(-3, -2).contiguous()


def from_blocks(blocks: Float[Tensor, "... q d l"], inputs: int) -> Float[Tensor, "... n n i"]:
    """What `in_blocks` was given."""
    return blocks.transpose(-3, -2).flatten(-2)[..., :inputs].unflatten(-2, (SIDE, SIDE))


def _fill(values: Float[Tensor, "... i"]) -> Float[Tensor, "... ql"]:
    """Zeros after the last input, up to a whole block."""
    missing = -values.shape[-1] % _inputs_in_a_block(values.dtype)
    return F.pad(values, (0, missing)) if missing else values.contiguous()


def _inputs_in_a_block(dtype: torch.dtype) -> int:
    """How many numbers the passes take at once."""
    return ctypes.c_long.in_dll(_loaded(dtype), "inputs_in_a_block").value


def _call(name: str, *arguments: Tensor | Sequence[Tensor] | int) -> None:
    """Run one pass. All tensors must be contiguous."""
    first = arguments[0]
    assert isinstance(first, Tensor)
    compiled.call(_loaded(first.dtype), name, *arguments)


def _loaded(dtype: torch.dtype) -> ctypes.CDLL:
    library = load_passes(dtype)
    assert library is not None, "ask `usable` first"
    return library


class CompiledVotes:
    """The votes of some images, less `centre`, and the factors of their gradient."""

    def __init__(self, poses: Tensor, weight: Tensor, *, inputs: int) -> None:
        self.poses, self.weight, self.inputs = poses, weight, inputs
        self.centre = self._mean()
        # Every pass depends on it, so that every pass is differentiated.
        self.anchor = poses.new_zeros((), requires_grad=True)
        self.factors: list[tuple[Tensor, Tensor, Tensor]] = []

    def _mean(self) -> Float[Tensor, "b pj d"]:
        """As one matrix product, over inputs and the inner index at once."""
        b, p, _, d, _ = self.poses.shape
        j = len(self.weight)
        left = self.poses.unflatten(3, (SIDE, SIDE)).permute(0, 1, 3, 4, 2, 5).reshape(b * p * SIDE, -1)
        right = self.weight.unflatten(2, (SIDE, SIDE)).permute(0, 3, 2, 1, 4).reshape(j * SIDE, -1)
        total = (left @ right.t()).view(b, p, SIDE, j, SIDE).transpose(2, 3)
        return total.reshape(b, p * j, d) / self.inputs

    def release(self) -> Tensors:
        self.poses = self.weight = self.poses.new_empty(())
        self.factors = []
        return ()

    def restore(self, large: Tensors, kept: Tensors) -> None:
        self.poses, self.weight = (tensor.detach() for tensor in large)

    def uniform(self) -> Float[Tensor, "1 pj i"]:
        return self.poses.new_zeros(1, self.poses.shape[1] * len(self.weight), self.inputs)

    def moments(self, weights: Float[Tensor, "b pj i"]) -> tuple[Tensor, Tensor, Tensor]:
        """The mass of the votes, their sum, and the sum of their squares."""
        return _Moments.apply(self, weights, self.anchor)

    def density(self, constant: Tensor, linear: Tensor, quadratic: Tensor) -> Float[Tensor, "b pj i"]:
        """constant + linear . v + quadratic . v^2 of each vote."""
        return _Density.apply(self, constant, linear, quadratic, self.anchor)

    def moments_pass(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mass = weights.new_empty(weights.shape[:2])
        first, second = torch.empty_like(self.centre), torch.empty_like(self.centre)
        fixed = self.poses, self.weight, self.centre
        _call("moments", *fixed, _fill(weights), mass, first, second, *self._sizes())
        return mass, first, second

    def density_pass(self, constant: Tensor, linear: Tensor, quadratic: Tensor) -> Tensor:
        fits = constant.new_empty(*constant.shape, self.weight.shape[1] * self.weight.shape[3])
        small = constant.contiguous(), linear.contiguous(), quadratic.contiguous()
        _call("density", self.poses, self.weight, self.centre, *small, fits, *self._sizes())
        return fits[..., : self.inputs]

    def gradients(self) -> Tensors:
        of_poses, of_weight = torch.zeros_like(self.poses), torch.zeros_like(self.weight)
        shares = [_fill(weights) for weights, _, _ in self.factors]
        linear = [linear.contiguous() for _, linear, _ in self.factors]
        quadratic = [quadratic.contiguous() for _, _, quadratic in self.factors]
        fixed = self.poses, self.weight, self.centre
        _call(
            "gradients", *fixed, shares, linear, quadratic, len(shares), of_poses, of_weight, *self._sizes()
        )
        return of_poses, of_weight

    def _sizes(self) -> tuple[int, int, int]:
        b, p, q, _, _ = self.poses.shape
        return b * p, len(self.weight), q


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, votes: CompiledVotes, weights: Tensor, anchor: Tensor) -> Any:
        ctx.votes = votes
        ctx.save_for_backward(weights)
        return votes.moments_pass(weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (weights,) = ctx.saved_tensors
        mass, first, second = gradients
        ctx.votes.factors.append((weights, first, second))
        return None, ctx.votes.density_pass(mass, first, second) if ctx.needs_input_grad[1] else None, None


class _Density(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, votes: CompiledVotes, constant: Tensor, linear: Tensor, quadratic: Tensor, anchor: Tensor
    ) -> Tensor:
        ctx.votes = votes
        ctx.save_for_backward(linear, quadratic)
        return votes.density_pass(constant, linear, quadratic)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        ctx.votes.factors.append((gradients[0], *ctx.saved_tensors))
        return None, *ctx.votes.moments_pass(gradients[0]), None
