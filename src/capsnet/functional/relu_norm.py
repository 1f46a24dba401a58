"""ReLU, then BatchNorm, of training: one function instead of two, in C where it can be compiled.

Each map is read as seldom as can be, nothing is kept but the convolution's own output, and sums over places are in float64.

Letters: B batch, C channels, H x W map.
"""

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.functional import compiled

_SOURCE = Path(__file__).with_name("relu_norm.c")
_FLAGS: dict[torch.dtype, tuple[str, ...]] = {torch.float32: (), torch.bfloat16: ("-DBFLOAT16",)}


def can_fuse(maps: Tensor, norm: nn.BatchNorm2d) -> bool:
    """Whether `relu_norm` takes these; asked of a module that is not training, or elsewhere than on the CPU, it is no."""
    return (
        type(norm) is nn.BatchNorm2d
        and norm.training
        and norm.affine
        and norm.track_running_stats
        and norm.weight.dtype == torch.float32
        and compiled.readable(maps, norm.weight)
        and maps.is_contiguous(memory_format=torch.channels_last)
        and maps.numel() > maps.shape[1]  # of a single value BatchNorm complains
        and _load(maps.dtype) is not None
    )


def relu_norm(maps: Float[Tensor, "b c h w"], norm: nn.BatchNorm2d) -> Float[Tensor, "b c h w"]:
    """`norm(maps.relu())` while training, running statistics and all, where `can_fuse` allows it."""
    return _ReluNorm.apply(maps, norm.weight, norm.bias, *running_statistics(norm))


def running_statistics(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor, float, float]:
    """The running mean and variance, which C moves, epsilon, and the momentum of this batch, which is counted."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    momentum = 1 / int(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    return norm.running_mean, norm.running_var, norm.eps, momentum


@lru_cache
def _load(dtype: torch.dtype) -> ctypes.CDLL | None:
    return compiled.compile_source(_SOURCE, *_FLAGS[dtype]) if dtype in _FLAGS else None


class _ReluNorm(torch.autograd.Function):
    """With r = relu(x), m and v its mean and variance: y = weight (r - m) / sqrt(v + eps) + bias, for each channel."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor, *statistics: Any) -> Tensor:
        result = torch.empty_like(maps)
        mean, inverse = torch.empty(2, maps.shape[1], dtype=torch.float64)
        run("forward", maps, weight, bias, result, mean, inverse, *statistics)
        ctx.save_for_backward(maps, weight, mean, inverse)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        maps, weight, mean, inverse = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        results = torch.empty_like(maps), torch.empty_like(weight), torch.empty_like(weight)
        run("backward", maps, gradient, weight, mean, inverse, *results)
        return *results, None, None, None, None


def run(name: str, maps: Tensor, *arguments: Tensor | int | float, sums: bool = True) -> None:
    """A C function on maps with channels last, with room for each thread's sums where it takes any."""
    library, channels = _load(maps.dtype), maps.shape[1]
    assert library is not None
    room = [torch.empty(torch.get_num_threads(), 2, channels, dtype=torch.float64)] if sums else []
    compiled.call(library, name, maps, *arguments, *room, maps.numel() // channels, channels)
