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
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    result, mean, variance = _ReluNorm.apply(maps, norm.weight, norm.bias, norm.eps)
    count = maps.numel() // maps.shape[1]
    with torch.no_grad():
        norm.num_batches_tracked.add_(1)
        momentum = 1 / int(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
        norm.running_mean.lerp_(mean.float(), momentum)
        norm.running_var.lerp_((variance * (count / (count - 1))).float(), momentum)
    return result


@lru_cache
def _load(dtype: torch.dtype) -> ctypes.CDLL | None:
    return compiled.compile_source(_SOURCE, *_FLAGS[dtype]) if dtype in _FLAGS else None


class _ReluNorm(torch.autograd.Function):
    """With r = relu(x), m and v its mean and variance: y = weight (r - m) / sqrt(v + eps) + bias, for each channel."""

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        library = _load(maps.dtype)
        assert library is not None
        channels = maps.shape[1]
        rows = maps.numel() // channels
        sums = _sums(channels)
        compiled.call(library, "sum_forward", maps, sums, rows, channels)
        mean, squares = sums.sum(dim=0) / rows
        variance = (squares - mean.square()).clamp_min(0)
        inverse = (variance + epsilon).rsqrt()
        scale = weight * inverse
        result = torch.empty_like(maps)
        shift = (bias - mean * scale).float()
        compiled.call(library, "normalise", maps, scale.float(), shift, result, rows, channels)
        ctx.save_for_backward(maps, weight, mean, inverse)
        ctx.mark_non_differentiable(mean, variance)
        return result, mean, variance

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        maps, weight, mean, inverse = ctx.saved_tensors
        library = _load(maps.dtype)
        assert library is not None
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        channels = maps.shape[1]
        rows = maps.numel() // channels
        sums = _sums(channels)
        compiled.call(library, "sum_backward", maps, gradient, sums, rows, channels)
        of_bias, products = sums.sum(dim=0)
        of_weight = inverse * (products - mean * of_bias)
        scale = weight * inverse
        of_value = -scale * inverse * of_weight / rows
        constant = -scale * of_bias / rows - mean * of_value
        of_maps = torch.empty_like(maps)
        factors = (scale.float(), of_value.float(), constant.float())
        compiled.call(library, "backward", maps, gradient, *factors, of_maps, rows, channels)
        return of_maps, of_weight.to(weight.dtype), of_bias.to(weight.dtype), None


def _sums(channels: int) -> Tensor:
    return torch.zeros(torch.get_num_threads(), 2, channels, dtype=torch.float64)
