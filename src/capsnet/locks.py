"""A lock on a folder, held by one process at a time.

The operating system holds it (flock on Linux and macOS, a byte-range lock on Windows) and releases it when the process ends,
however it ends: a killed process leaves no stale lock. The empty file `.lock` stays in the folder.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from capsnet.errors import CapsNetError

if sys.platform == "win32":
    import msvcrt
else:
    try:
        import fcntl
    except ImportError:
        fcntl = None  # type: ignore[assignment]

NAME = ".lock"
HELD = (
    errno.EACCES,
    errno.EAGAIN,
    errno.EDEADLK,
)  # by another process; other errors: this file system has no locks


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[bool]:
    """Create the folder if needed and lock it; yield whether that worked, which is False while another process has the lock.

    Where the file system has no locks, such as some network storage, it yields True.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise CapsNetError(f"Could not write into '{folder}': {error.strerror}.") from error
    try:
        yield _acquire(handle)
    finally:
        os.close(handle)


def is_locked(folder: Path) -> bool:
    """Return whether another process holds the folder's lock."""
    if not (folder / NAME).is_file():
        return False
    with folder_lock(folder) as free:
        return not free


def _acquire(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        elif fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in HELD
    return True
