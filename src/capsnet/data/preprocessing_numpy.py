"""`Preprocessing.apply` in NumPy, for programs that predict without torch; the tests hold the two equal.

Letters: B batch, C x H x W image.
"""

import numpy as np
from jaxtyping import Float, UInt8

from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError


def apply_numpy(
    preprocessing: Preprocessing, images: UInt8[np.ndarray, "b c h w"]
) -> Float[np.ndarray, "b c h2 w2"]:
    """Pictures as stored -> float32 as a model takes them."""
    x = images.astype(np.float32) / np.float32(preprocessing.divisor)
    if preprocessing.resize is not None and x.shape[-2:] != preprocessing.resize:
        rows, columns = (resampling(n, m) for n, m in zip(x.shape[-2:], preprocessing.resize, strict=True))
        x = rows @ x @ columns.T
    if preprocessing.mean is not None and preprocessing.std is not None:
        mean, std = (
            np.array(v, dtype=np.float32)[:, None, None] for v in (preprocessing.mean, preprocessing.std)
        )
        x = (x - mean) / std
    if preprocessing.crop is not None:
        (height, width), (h, w) = x.shape[-2:], preprocessing.crop
        if h > height or w > width:
            raise CapsNetError(f"A crop of {h}x{w} does not fit into pictures of {height}x{width}.")
        top, left = (height - h) // 2, (width - w) // 2
        x = x[..., top : top + h, left : left + w]
    if preprocessing.per_image:
        axes = (1, 2, 3)
        floor = np.float32(x[0].size ** -0.5 if len(x) else 1.0)
        x = (x - x.mean(axis=axes, keepdims=True)) / np.maximum(x.std(axis=axes, keepdims=True), floor)
    return np.ascontiguousarray(x, dtype=np.float32)


def resampling(size: int, target: int) -> Float[np.ndarray, "target size"]:
    """The matrix of an antialiased bilinear resize of one axis: a triangle over each new pixel's share of the old ones."""
    scale = size / target
    width = max(scale, 1.0)
    centres = (np.arange(target) + 0.5) * scale
    distances = np.abs(np.arange(size) + 0.5 - centres[:, None]) / width
    triangle = np.maximum(1 - distances, 0)
    return (triangle / triangle.sum(axis=1, keepdims=True)).astype(np.float32)
