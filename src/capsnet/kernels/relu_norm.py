"""ReLU, then BatchNorm, while training: one C function instead of two operations.

Each map is read as few times as possible, nothing is kept but the convolution's own output, and sums over places are in
float64.

Letters: B batch, C channels, H x W map.
"""

import ctypes
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.nn import functional as F

from capsnet.kernels import compiled
from capsnet.kernels.differentiable import gradients

_SOURCE = Path(__file__).with_name("relu_norm.c")
_FLAGS: dict[torch.dtype, tuple[str, ...]] = {torch.float32: (), torch.bfloat16: ("-DBFLOAT16",)}


def can_fuse(maps: Tensor, norm: nn.BatchNorm2d) -> bool:
    """Whether `relu_norm` takes these: a norm that is training, float32 statistics, on the CPU, maps with channels last."""
    statistics = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    return (
        type(norm) is nn.BatchNorm2d
        and norm.training
        and norm.num_batches_tracked is not None
        and all(isinstance(t, Tensor) and _is_float32(t) for t in statistics)
        and compiled.readable(maps)
        and not maps.is_inference()
        and maps.dim() == 4
        and maps.shape[1] == norm.num_features
        and maps.is_contiguous(memory_format=torch.channels_last)
        and maps.numel() > maps.shape[1]  # BatchNorm refuses a single value
        and _load(maps.dtype) is not None
    )


def _is_float32(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and tensor.is_contiguous() and compiled.readable(tensor)


def relu_norm(maps: Float[Tensor, "b c h w"], norm: nn.BatchNorm2d) -> Float[Tensor, "b c h w"]:
    """`norm(maps.relu())` while training, running statistics and all, where `can_fuse` allows it."""
    return _ReluNorm.apply(maps, norm.weight, norm.bias, *running_statistics(norm))


def running_statistics(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor, float, float]:
    """The running mean and variance, which C updates, epsilon, and the momentum of this batch, which is counted."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    momentum = 1 / int(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    increment_version((norm.running_mean, norm.running_var))
    return norm.running_mean, norm.running_var, norm.eps, momentum


@lru_cache
def _load(dtype: torch.dtype) -> ctypes.CDLL | None:
    return compiled.compile_source(_SOURCE, *_FLAGS[dtype]) if dtype in _FLAGS else None


class _ReluNorm(torch.autograd.Function):
    """With r = relu(x), m and v its mean and variance: y = weight (r - m) / sqrt(v + eps) + bias, for each channel."""

    @staticmethod
    def forward(
        ctx: Any,
        maps: Tensor,
        weight: Tensor,
        bias: Tensor,
        mean: Tensor,
        variance: Tensor,
        *constants: float,
    ) -> Tensor:
        result = torch.empty_like(maps)
        of_batch, inverse = torch.empty(2, maps.shape[1], dtype=torch.float64)
        run("forward", maps, weight, bias, result, of_batch, inverse, mean, variance, *constants)
        ctx.save_for_backward(maps, weight, bias, of_batch, inverse)
        ctx.epsilon = constants[0]
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        maps, weight, bias, mean, inverse = ctx.saved_tensors
        if torch.is_grad_enabled():
            function = partial(plain, epsilon=ctx.epsilon)
            found = gradients(function, (maps, weight, bias), gradient)
            return *found, *[None] * 4
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        results = torch.empty_like(maps), torch.empty_like(weight), torch.empty_like(weight)
        run("backward", maps, gradient, weight, mean, inverse, *results)
        return *results, *[None] * 4


def plain(maps: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """The same by PyTorch's operations, without the running statistics."""
    return F.batch_norm(maps.relu(), None, None, weight, bias, training=True, eps=epsilon)


def run(name: str, maps: Tensor, *arguments: Tensor | int | float, sums: bool = True) -> None:
    """A C function on maps with channels last, with room for each thread's sums where it takes any."""
    library, channels = _load(maps.dtype), maps.shape[1]
    assert library is not None
    room = [torch.empty(torch.get_num_threads(), 2, channels, dtype=torch.float64)] if sums else []
    compiled.call(library, name, maps, *arguments, *room, maps.numel() // channels, channels)
