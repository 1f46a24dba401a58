"""C functions compiled for this processor when they are first needed, where PyTorch's own operations leave much to gain.

It takes the system's C compiler (`CC`, else `cc`) about a second for each file, once: the library is kept in a private folder
of the user (`~/.cache/capsnet/kernels`), under a name that stands for the source, the flags, the compiler and the
processor. Without a compiler, callers use PyTorch's operations: slower, with the same results up to rounding. If there is
one and it fails, a warning says so, once.

The libraries are not linked to an OpenMP library but find the one that PyTorch has loaded: the idle threads of a second one
would take the cores from the first. Where PyTorch has none, they run on one thread.
"""

import contextlib
import ctypes
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from capsnet.errors import CapsNetError
from capsnet.files import replacing
from capsnet.kernels import available
from capsnet.kernels.switch import warn

_FLAGS = ("-O3", "-fno-math-errno", "-fPIC")
# The best first: for this very processor and with threads. Some compilers refuse one of them or both.
_VARIANTS = (("-march=native", "-fopenmp"), ("-fopenmp",), ("-march=native",), ())
# Unresolved symbols must fail at load time, not while running.
_LINK = ("-shared", "-Wl,-z,now") if sys.platform == "linux" else ("-shared",)
_FAILURES = (OSError, ValueError, subprocess.SubprocessError, CapsNetError)


def compile_source(source: Path, *flags: str) -> ctypes.CDLL | None:
    """The functions of a C file, from the user's cache or compiled now, or None."""
    command = available.compiler()
    if command is None:
        return None
    folder, failures = available.library_folder(), []
    kept = {v: folder / _name(command, source, (*flags, *v)) if folder else None for v in _VARIANTS}
    for library in filter(None, map(_load, kept.values())):
        return library
    for variant, path in kept.items():
        try:
            return _compile(command, source, (*_FLAGS, *flags, *variant), path)
        except _FAILURES as error:
            failures.append(error)
    warn(f"'{' '.join(command)}' cannot make them ({_reason(failures[0])}).")
    return None


def _name(command: list[str], source: Path, flags: tuple[str, ...]) -> str:
    """A file name that changes with everything that the library depends on."""
    version = available.compiler_version(tuple(command))
    parts = (*command, version, available.processor(), torch.__version__, *_FLAGS, *flags, *_LINK)
    digest = hashlib.sha256("\0".join(parts).encode() + b"\0" + source.read_bytes())
    return f"{source.stem}-{digest.hexdigest()[:32]}.so"


def _load(path: Path | None) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(path)) if path is not None and available.is_private(path) else None
    except OSError:
        return None


def _compile(command: list[str], source: Path, flags: tuple[str, ...], path: Path | None) -> ctypes.CDLL:
    """Compile and load a library, from `path` if it can be kept there."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        compiled, library = Path(folder, "functions.o"), Path(folder, "functions.so")
        for arguments in ((*flags, "-c", source, "-o", compiled), (*_LINK, compiled, "-o", library)):
            subprocess.run([*command, *map(str, arguments)], check=True, capture_output=True, timeout=60)
        # The user's folder may be full, read-only or on a disk that nothing may be run from.
        with contextlib.suppress(*_FAILURES):
            if path is not None:
                with replacing(path) as temporary:
                    temporary.write_bytes(library.read_bytes())
                    temporary.chmod(0o700)
                    return ctypes.CDLL(str(temporary))
        return ctypes.CDLL(str(library))


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        return lines[0] if lines else f"exit code {error.returncode}"
    return str(error)


def readable(*tensors: Tensor) -> bool:
    """Whether C may read the memory of these: plain tensors on the CPU."""
    return all(type(t) in (Tensor, nn.Parameter) and t.device.type == "cpu" for t in tensors)


def call(library: ctypes.CDLL, name: str, *arguments: Tensor | Sequence[Tensor] | int | float) -> None:
    """Run one function on PyTorch's number of threads, its last argument; a sequence of tensors goes as an array of addresses.
    The function sees only memory, no strides."""
    library[name](*map(_as_c, arguments), ctypes.c_long(torch.get_num_threads()))


def _as_c(argument: Tensor | Sequence[Tensor] | int | float) -> object:
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return (ctypes.c_void_p * len(argument))(*(t.data_ptr() for t in argument))
