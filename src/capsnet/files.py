"""Files that are either the old one or the new one, never half of each.

A file is written beside its target, flushed to the disk and renamed over it: a crash, a kill or a full disk
at any moment leaves what was there before. What the disk refuses becomes a `CapsNetError`.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from capsnet.errors import CapsNetError

# A block that writes may also read a network or another program, whose OSErrors are not about this file.
_DISK_ERRORS = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EEXIST,
        errno.EFBIG,
        errno.EIO,
        errno.EISDIR,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)


def cache_folder() -> Path:
    """The user's folder for what can be downloaded or made again."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "capsnet"


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary path to write to; when the block ends well, that file takes the place of `path`.

    Folders on the way are made. The process id in the temporary name keeps apart two programs that write
    the same file.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _flush(temporary)
        os.replace(temporary, target)
        if os.name == "posix":
            _flush(target.parent)
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise CapsNetError(
            f"Could not write '{target}': {error.strerror}; what was there before is kept as it was."
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary folder to fill; when the block ends well it becomes `path`, which must not exist or be empty.

    The files in it are flushed by whoever writes them (`atomic_write`).
    """
    target = Path(path)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CapsNetError(f"'{target}' exists already and is not overwritten: choose another folder.")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        os.replace(temporary, target)
        if os.name == "posix":
            _flush(target.parent)
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise CapsNetError(f"Could not write '{target}': {error.strerror}; nothing of it is kept.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _flush(path: Path) -> None:
    # Windows flushes only a handle that may write; a folder can only be opened for reading.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def atomic_write(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a whole file in one step."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Writes strict JSON (no NaN), indented, keys in the order given, in one step."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    atomic_write(path, f"{text}\n".encode())


def read_json(path: str | os.PathLike[str]) -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        raise CapsNetError(f"There is no file '{path}'.") from None
    except OSError as error:
        raise CapsNetError(f"Could not read '{path}': {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CapsNetError(f"'{path}' is damaged or not JSON: {error}.") from error
