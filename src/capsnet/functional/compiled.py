"""C functions compiled for this processor when they are first needed, where PyTorch's own operations leave much to gain.

A second of the system's C compiler (`CC`, else `cc`), once in a process and for each source and number type. Where there
is none, or it fails, the callers use PyTorch's operations: slower, with the same results up to rounding.

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
from pathlib import Path

import torch
from torch import Tensor

_FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fPIC")
# What is missing must be missed while loading, not while running.
_LINK = ("-shared", "-Wl,-z,now") if sys.platform == "linux" else ("-shared",)


def compile_source(source: Path, *flags: str) -> ctypes.CDLL | None:
    """The functions of a C file, with threads where they can be had, or None."""
    for threading in (("-fopenmp",), ()):
        try:
            return _compile(source, *flags, *threading)
        except (OSError, ValueError, subprocess.SubprocessError):
            continue
    return None


def _compile(source: Path, *flags: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        compiler = shlex.split(os.environ.get("CC", "cc"))
        compiled, library = Path(folder, "functions.o"), Path(folder, "functions.so")
        for arguments in (
            (*_FLAGS, *flags, "-c", str(source), "-o", str(compiled)),
            (*_LINK, str(compiled), "-o", str(library)),
        ):
            subprocess.run([*compiler, *arguments], check=True, capture_output=True, timeout=60)
        return ctypes.CDLL(str(library))


def readable(*tensors: Tensor) -> bool:
    """Whether C may read these: plain CPU memory, and nothing at work that compiles, traces, transforms or counts PyTorch's
    operations, which would not see what C does."""
    return (
        all(tensor.device.type == "cpu" for tensor in tensors)
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
    )


def call(library: ctypes.CDLL, name: str, *arguments: Tensor | Sequence[Tensor] | int | float) -> None:
    """Runs one function on PyTorch's number of threads, its last argument; a sequence of tensors goes as an array of
    addresses. It sees memory alone, no strides."""
    library[name](*map(_as_c, arguments), ctypes.c_long(torch.get_num_threads()))


def _as_c(argument: Tensor | Sequence[Tensor] | int | float) -> object:
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return (ctypes.c_void_p * len(argument))(*(t.data_ptr() for t in argument))
