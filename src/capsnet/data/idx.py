"""The idx format of MNIST: two zero bytes, a type, the number of dimensions, their big-endian sizes, then the numbers.

A header's claim is compared with what the file can hold before anything is allocated.
"""

import hashlib
import math
import struct
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Integer

from capsnet.data.files import CHUNK, check_digest, largest_content, open_unpacked
from capsnet.errors import CapsNetError

TYPES = {"bytes": (0x08, ">u1"), "shorts": (0x0B, ">i2")}
MAX_DIMENSIONS = 4
MAX_BYTES = 1 << 32


class IdxFile(NamedTuple):
    """The numbers of a file and the SHA-256 of its content."""

    array: Integer[np.ndarray, "..."]
    sha256: str


def read_idx(
    path: Path, *, ndim: int | None = None, sha256: str | None = None, kind: str = "bytes"
) -> IdxFile:
    """Read an idx file of bytes or of 16-bit numbers, packed with gzip or not.

    Args:
        ndim: how many dimensions it must have: 3 for images, 1 for labels.
        sha256: what the SHA-256 of the unpacked content must be.
        kind: the numbers that it must have, a key of `TYPES`.
    """
    digest = hashlib.sha256()
    stored = np.dtype(TYPES[kind][1])
    with open_unpacked(path) as file:
        shape = _read_header(path, file, digest, ndim, kind)
        content = np.empty(math.prod(shape) * stored.itemsize, dtype=np.uint8)
        view, filled = content.data, 0
        while filled < len(view):
            # GzipFile.readinto gives at most a chunk, and gives 0 at the end
            got = file.readinto(view[filled : filled + CHUNK])
            if not got:
                raise CapsNetError(f"{path} is cut short: it holds {filled} of {len(view)} bytes.")
            filled += got
        digest.update(view)
        if file.read(1):
            raise CapsNetError(
                f"{path} goes on after its {math.prod(shape)} numbers: it is not a whole idx file."
            )
    check_digest(path, digest, sha256)
    array = content.view(stored).reshape(shape)
    return IdxFile(array.astype(stored.newbyteorder("="), copy=False), digest.hexdigest())


def _read_header(
    path: Path, file: BufferedIOBase, digest: "hashlib._Hash", ndim: int | None, kind: str
) -> tuple[int, ...]:
    magic = file.read(4)
    if (
        len(magic) < 4
        or magic[:2] != b"\0\0"
        or magic[2] != TYPES[kind][0]
        or not 1 <= magic[3] <= MAX_DIMENSIONS
    ):
        raise CapsNetError(f"{path} is not an idx file of {kind}.")
    if ndim is not None and magic[3] != ndim:
        raise CapsNetError(f"{path} has {magic[3]} dimensions where {ndim} are expected.")
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise CapsNetError(f"{path} is cut short in its header.")
    digest.update(magic + sizes)
    shape = struct.unpack(f">{magic[3]}I", sizes)
    claimed = math.prod(shape)
    # A size of 0 must not excuse the others: NumPy refuses shapes that no memory could hold, even empty ones.
    whole = math.prod(max(1, size) for size in shape)
    if (
        claimed * np.dtype(TYPES[kind][1]).itemsize > min(MAX_BYTES, largest_content(path))
        or whole > MAX_BYTES
    ):
        raise CapsNetError(f"{path} claims {claimed} numbers, which is more than it can hold: it is damaged.")
    return shape
