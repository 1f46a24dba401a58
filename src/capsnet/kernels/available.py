"""What this machine and this PyTorch offer to accelerators: a compiler, a folder for what it makes, features to ask for.

Everything is looked for here, so that each accelerator finds the same answer and nothing fails where something is missing.
"""

import os
import platform
import shlex
import shutil
import stat
import subprocess
from functools import lru_cache
from pathlib import Path

import torch
from torch.nn.modules import module as nn_module

from capsnet.files import cache_folder


def compiler() -> list[str] | None:
    """The command of the C compiler, `CC` or else `cc`, or None where there is none."""
    try:
        command = shlex.split(os.environ.get("CC") or "cc")
    except ValueError:
        return None
    return command if command and shutil.which(command[0]) else None


@lru_cache
def compiler_version(command: tuple[str, ...]) -> str:
    """What the compiler says of itself."""
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout


@lru_cache
def processor() -> str:
    """The processor with the instructions it has: code compiled for it may not run on another one."""
    name = f"{platform.system()} {platform.machine()}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{name} {platform.node()}"  # nothing to tell two kinds of processor apart by but the machine's name
    wanted = ("model name", "flags", "Features", "CPU part", "isa")
    return "\n".join([name, *sorted({line for line in lines if line.startswith(wanted)})])


def library_folder() -> Path | None:
    """A folder that only this user can write to, for compiled libraries, or None where there can be none."""
    try:
        folder = cache_folder() / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if is_private(folder) else None
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return None


def is_private(path: Path) -> bool:
    """Whether a file or folder is this user's own, and nobody else may change it."""
    if not hasattr(os, "getuid"):
        return True
    found = path.lstat()
    kind = stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)
    return kind and found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class Missing(Exception):
    """This PyTorch has no way to ask what an accelerator must know."""


def observed() -> bool:
    """Whether PyTorch's operations are being compiled, traced, transformed, differentiated forwards, counted or replaced, by
    something that would not see what an accelerator does. Raises `Missing` where PyTorch cannot be asked."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return True
    try:
        return (
            torch._C._len_torch_dispatch_stack() > 0
            or torch._C._len_torch_function_stack() > 0
            or torch._C._functorch.peek_interpreter_stack() is not None
            or torch.autograd.forward_ad._current_level >= 0
        )
    except AttributeError as error:
        raise Missing(str(error)) from None


def hooked(module: torch.nn.Module) -> bool:
    """Whether something is called, beside its own `forward`, when this module is. Raises `Missing` where PyTorch cannot be
    asked."""
    try:
        return bool(
            module._forward_hooks
            or module._forward_pre_hooks
            or module._backward_hooks
            or module._backward_pre_hooks
            or module._compiled_call_impl is not None
        )
    except AttributeError as error:
        raise Missing(str(error)) from None


def all_hooked() -> bool:
    """Whether something is called with every module. Raises `Missing` where PyTorch cannot be asked."""
    try:
        return bool(nn_module._has_any_global_hook())
    except AttributeError as error:
        raise Missing(str(error)) from None


def has_bfloat16_matrices() -> bool:
    """Whether the processor multiplies matrices of bfloat16 by itself, or nobody can tell."""
    try:
        return torch.cpu._is_amx_tile_supported()
    except AttributeError:
        return True
