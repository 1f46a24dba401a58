"""The passes over matrix votes in C, compiled for this processor when they are first needed.

Half a second of the system's C compiler (`CC`, else `cc`), once in a process and for each number type. Where there is none,
or it fails, there are no kernels, and the votes are stored and read by PyTorch's own operations: slower, with the same
results.

They are not linked to an OpenMP library but find the one that PyTorch has brought: the idle threads of a second one would
take the cores from the first. Where PyTorch has none, they run on one thread.
"""

import ctypes
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

_SOURCE = Path(__file__).with_name("matrix_votes.c")
_FLAGS = ("-O3", "-march=native", "-fPIC")
# What is missing must be missed while loading, not while running.
_LINK = ("-shared", "-Wl,-z,now") if sys.platform == "linux" else ("-shared",)
_NAMES = {torch.float32: "float", torch.float64: "double"}


@lru_cache
def load_kernels(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The compiled passes for numbers of this type, or None."""
    if dtype not in _NAMES:
        return None
    for threading in (("-fopenmp",), ()):
        try:
            return _compile(f"-DREAL={_NAMES[dtype]}", *threading)
        except (OSError, ValueError, subprocess.SubprocessError):
            continue
    return None


def _compile(*flags: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        compiler = shlex.split(os.environ.get("CC", "cc"))
        compiled, library = Path(folder, "matrix_votes.o"), Path(folder, "matrix_votes.so")
        for arguments in (
            (*_FLAGS, *flags, "-c", str(_SOURCE), "-o", str(compiled)),
            (*_LINK, str(compiled), "-o", str(library)),
        ):
            subprocess.run([*compiler, *arguments], check=True, capture_output=True, timeout=60)
        return ctypes.CDLL(str(library))


def usable(*tensors: Tensor) -> bool:
    """Whether the passes may read these: plain CPU memory, and nothing at work that compiles, traces or counts PyTorch's
    operations, which would not see them."""
    first = tensors[0]
    return (
        all(t.device.type == "cpu" and t.dtype == first.dtype for t in tensors)
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
        and not torch.jit.is_tracing()
        and torch._C._len_torch_dispatch_stack() == 0
        and load_kernels(first.dtype) is not None
    )


def inputs_in_a_block(dtype: torch.dtype) -> int:
    """How many numbers the passes take at once."""
    return ctypes.c_long.in_dll(_loaded(dtype), "inputs_in_a_block").value


def call(name: str, *arguments: Tensor | Sequence[Tensor] | int) -> None:
    """Runs one pass; a sequence of tensors goes as an array of addresses. All must be contiguous."""
    first = arguments[0]
    assert isinstance(first, Tensor)
    _loaded(first.dtype)[name](*map(_as_c, arguments), ctypes.c_long(torch.get_num_threads()))


def _loaded(dtype: torch.dtype) -> ctypes.CDLL:
    kernels = load_kernels(dtype)
    assert kernels is not None, "ask `usable` first"
    return kernels


def _as_c(argument: Tensor | Sequence[Tensor] | int) -> object:
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return (ctypes.c_void_p * len(argument))(*(t.data_ptr() for t in argument))
