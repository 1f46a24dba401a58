"""The passes over matrix votes in C; without a compiler the votes are stored and read by PyTorch's own operations."""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from capsnet.functional import compiled

_SOURCE = Path(__file__).with_name("matrix_votes.c")
_NAMES = {torch.float32: "float", torch.float64: "double"}


@lru_cache
def load_kernels(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The compiled passes for numbers of this type, or None."""
    return compiled.compile_source(_SOURCE, f"-DREAL={_NAMES[dtype]}") if dtype in _NAMES else None


def usable(*tensors: Tensor) -> bool:
    """Whether the passes may read these."""
    first = tensors[0]
    return (
        all(tensor.dtype == first.dtype for tensor in tensors)
        and compiled.readable(*tensors)
        and not torch.is_autocast_enabled("cpu")
        and load_kernels(first.dtype) is not None
    )


def inputs_in_a_block(dtype: torch.dtype) -> int:
    """How many numbers the passes take at once."""
    return ctypes.c_long.in_dll(_loaded(dtype), "inputs_in_a_block").value


def call(name: str, *arguments: Tensor | Sequence[Tensor] | int) -> None:
    """Runs one pass. All tensors must be contiguous."""
    first = arguments[0]
    assert isinstance(first, Tensor)
    compiled.call(_loaded(first.dtype), name, *arguments)


def _loaded(dtype: torch.dtype) -> ctypes.CDLL:
    kernels = load_kernels(dtype)
    assert kernels is not None, "ask `usable` first"
    return kernels
