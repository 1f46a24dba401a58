"""3x3 convolutions for training by Winograd's minimal filtering (Lavin, Gray 2016), in C where it can be compiled.

It takes a quarter of the direct method's multiplications, with stride 2 three fifths, for the output and for all gradients;
winograd.c has the equations. Rounding errors are about ten times those of the direct method, a few millionths of the result's
norm. Maps may be in bfloat16; kernels, their gradients and all sums are in float32.

Letters: B batch, C channels, H x W map; O channels, P x Q map after the convolution; E elements of a transformed kernel.
"""

import ctypes
from functools import lru_cache
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from capsnet.kernels import available, compiled

_SOURCE = Path(__file__).with_name("winograd.c")
_LANES = 32
# What a kernel's rows and columns become, G, for strides of 1 and of 2, there without its repeated rows.
_G = {
    1: (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
    2: ((1, 0, 0), (1 / 2, 0, 1 / 2), (1 / 2, 0, -1 / 2), (0, 0, 1), (0, 1, 0)),
}


def takes(maps: Tensor, kernel: Tensor, stride: tuple[int, int]) -> bool:
    """Whether these, with channels last and no padding, are convolved faster here."""
    return (
        stride in _strides(maps.dtype)
        and kernel.dtype == torch.float32
        and kernel.shape[2:] == (3, 3)
        and kernel.shape[0] % _LANES == kernel.shape[1] % _LANES == 0
        and min(maps.shape[2:]) >= 3
        and compiled.readable(maps, kernel)
        and _load(stride[0], maps.dtype) is not None
    )


def _strides(dtype: torch.dtype) -> tuple[tuple[int, int], ...]:
    """The strides at which it is faster than the processor's own instructions for this number type."""
    if dtype == torch.float32:
        return (1, 1), (2, 2)
    return ((1, 1),) if dtype == torch.bfloat16 and not available.has_bfloat16_matrices() else ()


@torch.autocast("cpu", enabled=False)
def convolve(
    maps: Float[Tensor, "b c h w"], kernel: Float[Tensor, "o c 3 3"], bias: Float[Tensor, "o"], stride: int
) -> Float[Tensor, "b o p q"]:
    """`F.conv2d` without padding, where it `takes` these."""
    (b, _, h, w), o = maps.shape, len(kernel)
    size = (h - 3) // stride + 1, (w - 3) // stride + 1
    result = torch.empty(b, o, *size, dtype=maps.dtype, memory_format=torch.channels_last)
    _run("forward", stride, maps, kernel, _transformed(kernel, stride), bias.contiguous(), result)
    return result


@torch.autocast("cpu", enabled=False)
def convolve_backward(
    gradient: Float[Tensor, "b o p q"],
    maps: Float[Tensor, "b c h w"],
    kernel: Float[Tensor, "o c 3 3"],
    stride: int,
) -> tuple[Float[Tensor, "b c h w"], Float[Tensor, "o c 3 3"], Float[Tensor, "o"]]:
    """The gradients of the maps, the kernel and the bias."""
    (o, c), threads = kernel.shape[:2], torch.get_num_threads()
    # Not by `to(memory_format=...)`, which leaves some slices as they are.
    gradient = gradient.to(maps.dtype).contiguous(memory_format=torch.channels_last)
    of_maps = torch.empty_like(maps)
    turned = _transformed(kernel, stride).transpose(1, 2).contiguous()
    of_transformed, of_bias = turned.new_empty(threads, len(turned), c, o), turned.new_empty(threads, o)
    _run("backward", stride, maps, kernel, gradient, turned, of_maps, of_transformed, of_bias)
    of_kernel = _both_ways(stride).T @ of_transformed[0].flatten(1)
    return of_maps, of_kernel.view(3, 3, c, o).permute(3, 2, 0, 1), of_bias[0]


@lru_cache
def _both_ways(stride: int) -> Float[Tensor, "e 9"]:
    g = torch.tensor(_G[stride], dtype=torch.float64, device="cpu")
    return torch.kron(g, g).float()


def _transformed(kernel: Float[Tensor, "o c 3 3"], stride: int) -> Float[Tensor, "e c o"]:
    """U = G g G' of each kernel g."""
    o, c = kernel.shape[:2]
    return (_both_ways(stride) @ kernel.permute(2, 3, 1, 0).reshape(9, c * o)).view(-1, c, o)


@lru_cache
def _load(stride: int, dtype: torch.dtype) -> ctypes.CDLL | None:
    flags = ("-DBFLOAT16",) if dtype == torch.bfloat16 else ()
    library = compiled.compile_source(_SOURCE, f"-DSTRIDE={stride}", *flags)
    if library is not None:
        library.room.restype = ctypes.c_long
    return library


def _run(name: str, stride: int, maps: Tensor, kernel: Tensor, *arguments: Tensor) -> None:
    """A C function on maps with channels last, with room for each thread's tiles."""
    library, (b, c, h, w), o = _load(stride, maps.dtype), maps.shape, len(kernel)
    assert library is not None
    room = library.room(*map(ctypes.c_long, (h, w, c, o)))
    rooms = torch.empty(torch.get_num_threads(), room, dtype=torch.float32)
    compiled.call(library, name, maps, *arguments, rooms, b, h, w, c, o)
