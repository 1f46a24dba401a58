"""A strided convolution as products of spectra: the numbers of `conv2d`, for a quarter of its multiplications.

CapsNet's primary capsules are one 9x9 convolution of stride 2, 256 to 256 channels: 95 % of the network's work. Taking the
pixels of every phase of the stride as channels of their own (space to depth) leaves a convolution of stride 1 over a grid
of h x w = 10x10 with 5x5 taps. The discrete Fourier transform turns that into one matrix product for each frequency. Of
the h*w frequencies of real numbers, those that are their own conjugates (R, at most four) stay real, the others come in
conjugate pairs (P) of which one half is enough. 4P + R real products stand where h2*w2*taps stood: 196 for 900.

The transforms are matrix products too, with the bases that `spectral_bases` makes; everything is differentiable as it is.
Rounding errors are smaller than the direct sum's. It is faster for large batches only, as the kernel is transformed each time,
and for small maps only, as the bases grow with the square of the grid: 4 MB for a grid of 32 x 32, a gigabyte for an image
of 224 pixels a side.

Letters: B batch, C channels, O filters, F = C x stride^2, H x W image, N = h x w its grid, T taps, M output pixels.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from capsnet.kernels.acceleration import accelerates
from capsnet.layers.conv_primary import ConvPrimaryCapsules

_BATCH = (
    32  # from this many images a training step is faster: measured on 2 CPU cores, with the paper's sizes
)
_GRID = 1024  # points of the largest grid whose bases are made


class SpectralBases(NamedTuple):
    """Cosines and sines: from grid and taps to frequencies, and from frequencies to the output's pixels."""

    image_real: Float[Tensor, "r n"]
    image_pairs: Float[Tensor, "p2 n"]
    kernel_real: Float[Tensor, "r t"]
    kernel_cosine: Float[Tensor, "p t"]
    kernel_sine: Float[Tensor, "p t"]
    output_real: Float[Tensor, "m r"]
    output_cosine: Float[Tensor, "m p"]
    output_sine: Float[Tensor, "m p"]


@accelerates(ConvPrimaryCapsules)
def conv_primary_capsules(layer: ConvPrimaryCapsules, features: Float[Tensor, "b c h w"]) -> Any:
    """The capsules of a large batch in training."""
    height, width = features.shape[2:]
    kernel, stride = layer.weight.shape[-1], layer.stride
    if not (
        layer.training
        and len(features) >= _BATCH
        and all(t.device.type == "cpu" and t.dtype == torch.float32 for t in (features, layer.weight))
        and not torch.is_autocast_enabled("cpu")
        and kernel <= min(height, width)
        and (height // stride + 1) * (width // stride + 1) <= _GRID
    ):
        return NotImplemented
    bases = _bases(height, width, kernel, stride)
    return layer.as_capsules(spectral_convolution(features, layer.weight, stride, bases))


@lru_cache(maxsize=8)
def _bases(height: int, width: int, kernel: int, stride: int) -> SpectralBases:
    with torch.inference_mode(False):
        return spectral_bases((height, width), kernel, stride)


def spectral_bases(image: tuple[int, int], kernel: int, stride: int) -> SpectralBases:
    """The bases for images of the given height and width, without padding."""
    taps = -(-kernel // stride)
    outputs = [(side - kernel) // stride + 1 for side in image]
    height, width = (n + taps - 1 for n in outputs)
    frequencies = [(u, v) for u in range(height) for v in range(width)]
    conjugates = [(-u % height, -v % width) for u, v in frequencies]
    real = [f for f, c in zip(frequencies, conjugates, strict=True) if f == c]
    pairs = [f for f, c in zip(frequencies, conjugates, strict=True) if f < c]

    def angles(chosen: list[tuple[int, int]], rows: int, columns: int) -> Tensor:
        f = torch.tensor(chosen, dtype=torch.float64, device="cpu").reshape(-1, 2, 1, 1)
        y = torch.arange(rows, dtype=torch.float64, device="cpu")[:, None]
        x = torch.arange(columns, dtype=torch.float64, device="cpu")
        return (2 * math.pi * (f[:, 0] * y / height + f[:, 1] * x / width)).flatten(1)

    grid, tap, out = angles(pairs, height, width), angles(pairs, taps, taps), angles(pairs, *outputs)
    total = height * width
    bases = SpectralBases(
        image_real=angles(real, height, width).cos(),
        image_pairs=torch.stack([grid.cos(), -grid.sin()], dim=1).flatten(0, 1),
        kernel_real=angles(real, taps, taps).cos(),
        kernel_cosine=tap.cos(),
        kernel_sine=-tap.sin(),
        output_real=angles(real, *outputs).cos().T / total,
        output_cosine=2 * out.cos().T / total,
        output_sine=-2 * out.sin().T / total,
    )
    return SpectralBases(*(basis.float().contiguous() for basis in bases))


def space_to_depth(
    maps: Float[Tensor, "b c h w"], stride: int, grid: tuple[int, int]
) -> Float[Tensor, "n b f"]:
    """The grid's points first, then the batch, then every phase of every channel; cut or padded to fit the grid."""
    height, width = (stride * n for n in grid)
    if maps.shape[-2:] != (height, width):
        maps = F.pad(maps, (0, width - maps.shape[-1], 0, height - maps.shape[-2]))
    split = maps.unflatten(3, (grid[1], stride)).unflatten(2, (grid[0], stride))
    return split.permute(2, 4, 0, 3, 5, 1).reshape(grid[0] * grid[1], len(maps), -1)


def spectral_convolution(
    images: Float[Tensor, "b c h w"], weight: Float[Tensor, "o c k k"], stride: int, bases: SpectralBases
) -> Float[Tensor, "b o h2 w2"]:
    """What `conv2d(images, weight, stride=stride)` gives; `bases` are those for these sizes."""
    b, o, kernel = len(images), len(weight), weight.shape[-1]
    taps = -(-kernel // stride)
    height, width = ((side - kernel) // stride + 1 for side in images.shape[-2:])
    grid = space_to_depth(images, stride, (height + taps - 1, width + taps - 1))
    tapped = space_to_depth(weight, stride, (taps, taps)).flatten(1)

    def transform(basis: Tensor, values: Tensor, rows: int) -> Tensor:
        return (basis @ values).view(-1, rows, grid.shape[-1])

    image_real = transform(bases.image_real, grid.flatten(1), b)
    image_pairs = transform(bases.image_pairs, grid.flatten(1), 2 * b)
    kernel_real = transform(bases.kernel_real, tapped, o)
    kernel_cosine = transform(bases.kernel_cosine, tapped, o)
    kernel_sine = transform(bases.kernel_sine, tapped, o)

    # The spectrum of a correlation is the image's times the kernel's conjugate.
    # The kernel comes first so that its gradient, the largest array here, is written in its own layout.
    real = kernel_real @ image_real.mT
    by_cosine = (kernel_cosine @ image_pairs.mT).unflatten(2, (2, b))
    by_sine = (kernel_sine @ image_pairs.mT).unflatten(2, (2, b))
    cosine = by_cosine[:, :, 0] + by_sine[:, :, 1]
    sine = by_cosine[:, :, 1] - by_sine[:, :, 0]
    pixels = (
        bases.output_real @ real.flatten(1)
        + bases.output_cosine @ cosine.flatten(1)
        + bases.output_sine @ sine.flatten(1)
    )
    return pixels.view(height, width, o, b).permute(3, 2, 0, 1)
