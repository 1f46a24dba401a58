"""Files of a data set: where they are looked for, and reading one while its SHA-256 is taken.

Digests are of the unpacked content: Debian, the authors and mirrors pack the same data with different gzip programs, and
all of them are the same data set.
"""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

from capsnet.errors import CapsNetError
from capsnet.files import cache_folder

CHUNK = 1 << 20
# deflate cannot expand by more, so a claimed size beyond it is a lie that needs no reading to find out
MAX_EXPANSION = 1032


def data_folders(data_dir: Path | None = None) -> list[Path]:
    """Where data is looked for: the folder given, CAPSNET_DATA, the user's cache. Downloads go to the first that is set."""
    folders = [data_dir, os.environ.get("CAPSNET_DATA"), cache_folder()]
    return [Path(f).expanduser() for f in folders if f]


def find_folder(
    name: str, files: Iterable[str], data_dir: Path | None = None, others: Iterable[Path] = ()
) -> Path | None:
    """The first folder with all of `files`, packed or not: a data folder's sub-folder `name`, the folder itself, `others`."""
    files = tuple(files)
    candidates = [place for folder in data_folders(data_dir) for place in (folder / name, folder)]
    for folder in (*candidates, *others):
        if all(find_file(folder, file) for file in files):
            return folder
    return None


def find_file(folder: Path, name: str) -> Path | None:
    """`name` or `name.gz` in `folder`."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


@contextmanager
def open_unpacked(path: Path) -> Iterator[BufferedIOBase]:
    """A file's content, unpacked when its first bytes are gzip's; what is wrong with the file is one sentence."""
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if packed:
                with gzip.GzipFile(fileobj=raw, mode="rb") as unpacked:
                    yield unpacked
            else:
                yield raw
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CapsNetError(f"{path} is damaged: {error}".rstrip(".") + ".") from error
    except OSError as error:
        raise CapsNetError(f"{path} cannot be read: {error.strerror or error}.") from error


def largest_content(path: Path) -> int:
    """No more bytes than this can come out of the file."""
    size = path.stat().st_size
    with open(path, "rb") as raw:
        return size * MAX_EXPANSION if raw.read(2) == b"\x1f\x8b" else size


def check_digest(path: Path, digest: "hashlib._Hash", sha256: str | None) -> None:
    """Refuses a file whose content is not the expected one."""
    if sha256 is not None and digest.hexdigest() != sha256:
        raise CapsNetError(
            f"{path} is not the file it should be (its content has SHA-256 {digest.hexdigest()[:12]}..., "
            f"not {sha256[:12]}...): delete it and get it again."
        )
