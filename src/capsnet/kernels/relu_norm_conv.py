"""ReLU, then BatchNorm, then the next convolution, of training, without ever writing the normalised map.

BatchNorm multiplies each channel by one number and adds another, and a convolution without padding can do both with its own
weights: conv(scale r + shift) = conv'(r). In the backward pass, the gradients of those weights hold the gradients of scale and
shift, so no sum over the map is taken. Memory is read and written half as often as by `relu_norm` with a convolution after it,
and on CPUs this is memory-bound.

Letters: B batch, C channels, H x W map; O channels, P x Q map after the convolution, whose kernel is K x K.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.nn import functional as F

from capsnet.kernels import winograd
from capsnet.kernels.compiled import readable
from capsnet.kernels.differentiable import gradients
from capsnet.kernels.relu_norm import can_fuse, plain, run, running_statistics


def can_fold(maps: Tensor, norm: nn.BatchNorm2d, conv: nn.Conv2d) -> bool:
    """Whether `relu_norm_conv` takes these: padding would have to be with what normalises to zero."""
    return (
        type(conv) is nn.Conv2d
        and can_fuse(maps, norm)
        and conv.padding == (0, 0)
        and conv.dilation == (1, 1)
        and conv.groups == 1
        and conv.bias is not None
        and conv.weight.dtype == conv.bias.dtype == torch.float32
        and readable(conv.weight, conv.bias)
    )


def relu_norm_conv(
    maps: Float[Tensor, "b c h w"], norm: nn.BatchNorm2d, conv: nn.Conv2d
) -> Float[Tensor, "b o p q"]:
    """`conv(norm(maps.relu()))` while training, where `can_fold` allows it. The maps are overwritten with their ReLU: they
    must be a convolution's own output, which no gradient needs, and which nobody else has been given."""
    return _ReluNormConv.apply(
        maps, norm.weight, norm.bias, conv.weight, conv.bias, conv.stride, *running_statistics(norm)
    )


class _ReluNormConv(torch.autograd.Function):
    """With r = relu(x) and its mean and variance m and v over B, H and W:

    inverse = 1 / sqrt(v + eps), scale = gamma inverse, shift = beta - m scale, of each channel;
    folded[o, c] = weight[o, c] scale[c], summand[o] = bias[o] + sum of weight[o, c] shift[c] over c and the kernel.
    """

    @staticmethod
    def forward(
        ctx: Any,
        maps: Tensor,
        gamma: Tensor,
        beta: Tensor,
        weight: Tensor,
        bias: Tensor,
        stride: tuple[int, int],
        running_mean: Tensor,
        running_variance: Tensor,
        epsilon: float,
        momentum: float,
    ) -> Tensor:
        mean, inverse = torch.empty(2, maps.shape[1], dtype=torch.float64)
        increment_version(maps)
        run("rectify", maps, mean, inverse, running_mean, running_variance, epsilon, momentum)
        scale = gamma * inverse
        shift = beta - mean * scale
        folded = weight * scale[:, None, None].float()
        summand = bias + weight.sum((2, 3)).double() @ shift
        ctx.stride, ctx.winograd = stride, winograd.takes(maps, folded, stride)
        if not ctx.winograd:
            folded = folded.to(maps.dtype)
        ctx.save_for_backward(maps, gamma, beta, weight, bias, mean, inverse, scale, shift, folded)
        ctx.epsilon = epsilon
        if ctx.winograd:
            return winograd.convolve(maps, folded, summand.float(), stride[0])
        return F.conv2d(maps, folded, summand.to(maps.dtype), stride)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        maps, gamma, beta, weight, bias, mean, inverse, scale, shift, folded = ctx.saved_tensors
        if torch.is_grad_enabled():

            def unfolded(maps: Tensor, gamma: Tensor, beta: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
                normalised = plain(maps, gamma, beta, ctx.epsilon)  # of their ReLU, whose ReLU is the same
                return F.conv2d(normalised, weight.to(maps.dtype), bias.to(maps.dtype), ctx.stride)

            return *gradients(unfolded, (maps, gamma, beta, weight, bias), gradient), *[None] * 5
        if ctx.winograd:
            of_maps, of_folded, of_bias = winograd.convolve_backward(gradient, maps, folded, ctx.stride[0])
        else:
            options = (ctx.stride, (0, 0), (1, 1), False, (0, 0), 1)
            of_maps, of_folded, of_bias = torch.ops.aten.convolution_backward(
                gradient, maps, folded, [len(weight)], *options, [True, True, True]
            )
        of_folded, of_bias = of_folded.float(), of_bias.float()
        of_weight = of_folded * scale[:, None, None].float()
        of_weight += of_bias[:, None, None, None] * shift[:, None, None].float()
        of_scale = (of_folded * weight).sum((0, 2, 3), dtype=torch.float64)
        of_shift = of_bias.double() @ weight.sum((2, 3)).double()
        of_gamma = inverse * (of_scale - mean * of_shift)
        places = maps.numel() // maps.shape[1]
        factor = -scale * inverse * of_gamma / places
        summand = -scale * of_shift / places - mean * factor
        of_maps = of_maps.contiguous(memory_format=torch.channels_last)
        run("unrectify", maps, of_maps, factor.float(), summand.float(), sums=False)
        return of_maps, of_gamma.float(), of_shift.float(), of_weight, of_bias, *[None] * 5
