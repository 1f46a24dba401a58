"""The binary matrix format of NORB: a magic number, the number of dimensions, at least three sizes, then the numbers.

All little-endian. As with idx, a header's claim is compared with what the file can hold before anything is allocated.
"""

import hashlib
import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from capsnet.data.files import CHUNK, check_digest, largest_content, open_unpacked
from capsnet.errors import CapsNetError

TYPES: dict[int, np.dtype[Any]] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}
MAX_BYTES = 1 << 32


class MatrixFile(NamedTuple):
    """The numbers of a file and the SHA-256 of its content."""

    array: np.ndarray
    sha256: str


def read_matrix(path: Path, *, ndim: int, dtype: str, sha256: str | None = None) -> MatrixFile:
    """Reads a matrix of `dtype` ("u1" or "i4") with `ndim` dimensions, packed with gzip or not.

    Args:
        sha256: what the SHA-256 of the unpacked content must be.
    """
    digest = hashlib.sha256()
    with open_unpacked(path) as file:
        head = file.read(8)
        magic, dimensions = struct.unpack("<ii", head) if len(head) == 8 else (0, 0)
        if magic not in TYPES or not 1 <= dimensions <= 8:
            raise CapsNetError(f"{path} is not a NORB matrix file.")
        if TYPES[magic] != np.dtype(dtype).newbyteorder("<") or dimensions != ndim:
            raise CapsNetError(
                f"{path} has {dimensions} dimensions of {TYPES[magic].name} where {ndim} of {np.dtype(dtype).name} belong."
            )
        # Fewer than three dimensions are still written with three sizes.
        sizes = file.read(4 * max(3, dimensions))
        if len(sizes) < 4 * max(3, dimensions):
            raise CapsNetError(f"{path} is cut short in its header.")
        digest.update(head + sizes)
        shape = struct.unpack(f"<{max(3, dimensions)}i", sizes)[:dimensions]
        claimed = math.prod(shape) * TYPES[magic].itemsize
        # A size of 0 must not excuse the others: NumPy refuses shapes that no memory could hold, even empty ones.
        whole = math.prod(max(1, size) for size in shape)
        if min(shape) < 0 or claimed > min(MAX_BYTES, largest_content(path)) or whole > MAX_BYTES:
            raise CapsNetError(f"{path} claims sizes {shape}, which is not what it can hold: it is damaged.")
        array: np.ndarray[Any, Any] = np.empty(shape, dtype=TYPES[magic])
        view, filled = array.reshape(-1).view("u1").data, 0
        while filled < claimed:
            got = file.readinto(view[filled : filled + CHUNK])
            if not got:
                raise CapsNetError(f"{path} is cut short: it holds {filled} of {claimed} bytes.")
            digest.update(view[filled : filled + got])
            filled += got
        if file.read(1):
            raise CapsNetError(f"{path} goes on after its {claimed} bytes: it is not a whole NORB file.")
    check_digest(path, digest, sha256)
    return MatrixFile(array, digest.hexdigest())
