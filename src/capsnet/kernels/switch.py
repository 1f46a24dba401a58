"""The one switch of all accelerators, and the one warning about them.

`CAPSNET_KERNELS=off` (or `capsnet train --kernels off`) computes everything by PyTorch's own operations; `auto`, the
default, accelerates what it can. `with using("off"):` does so for a block of code.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from capsnet.errors import CapsNetError

VARIABLE = "CAPSNET_KERNELS"
MODES = ("auto", "off")

_chosen: str | None = None  # by `using`; otherwise the environment decides
_warned = False


class KernelsWarning(RuntimeWarning):
    """Something that accelerates is there, but does not work; training goes on without it, more slowly."""


def enabled() -> bool:
    """Whether accelerators may be used."""
    mode = _chosen if _chosen is not None else os.environ.get(VARIABLE, "") or "auto"
    return checked(mode) == "auto"


def checked(mode: str) -> str:
    """The mode itself, if it is one."""
    if mode not in MODES:
        raise CapsNetError(f"{VARIABLE} is 'auto' or 'off', not '{mode}'.")
    return mode


@contextmanager
def using(mode: str) -> Iterator[None]:
    """Switch accelerators to `auto` or `off` within a block, whatever the environment says."""
    global _chosen
    before, _chosen = _chosen, checked(mode)
    try:
        yield
    finally:
        _chosen = before


def warn(reason: str) -> None:
    """Say once in a process why an accelerator does not work."""
    global _warned
    if not _warned:
        _warned = True
        text = f"capsnet runs without its compiled kernels, which is slower: {reason} {VARIABLE}=off silences this."
        warnings.warn(text, KernelsWarning, stacklevel=2)
