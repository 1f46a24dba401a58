"""The idx reader: what it reads, and what it refuses before it allocates."""

import gzip
import hashlib
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsnet.data.idx import read_idx
from capsnet.errors import CapsNetError


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


DIGITS = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_reads_what_was_written_packed_or_not(tmp_path: Path, pack) -> None:
    path = tmp_path / "x"
    path.write_bytes(pack(idx_bytes(DIGITS)))
    array, sha256 = read_idx(path, ndim=3)
    np.testing.assert_array_equal(array, DIGITS)
    assert sha256 == hashlib.sha256(idx_bytes(DIGITS)).hexdigest()


def test_reads_files_larger_than_a_chunk(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    array = np.random.default_rng(0).integers(0, 256, (3, 1000, 1001), dtype=np.uint8)
    path.write_bytes(gzip.compress(idx_bytes(array), 1))
    np.testing.assert_array_equal(read_idx(path).array, array)


WHOLE = idx_bytes(DIGITS)
HOSTILE = {
    "empty": (b"", "not an idx file"),
    "text": (b"hello, this is a text file", "not an idx file"),
    "a float type": (struct.pack(">BBBBI", 0, 0, 13, 1, 1) + b"\0\0\0\0", "not an idx file"),
    "no dimensions": (b"\0\0\x08\0", "not an idx file"),
    "200 dimensions": (b"\0\0\x08\xc8" + b"\0\0\0\1" * 200, "not an idx file"),
    "cut in the header": (WHOLE[:9], "cut short in its header"),
    "terabytes claimed": (struct.pack(">BBBB3I", 0, 0, 8, 3, 2**31, 2**20, 2**20), "more than it can hold"),
    "nothing of enormous size": (
        struct.pack(">BBBB3I", 0, 0, 8, 3, 0, 2**32 - 1, 2**32 - 1),
        "more than it can hold",
    ),
    "all bits set": (b"\0\0\x08\4" + b"\xff" * 16, "more than it can hold"),
    "cut in the numbers": (WHOLE[:-5], "cut short|more than it can hold"),
    "trailing bytes": (WHOLE + b"x", "goes on after its 24 numbers"),
}


@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["packed", "plain"])
@pytest.mark.parametrize("case", HOSTILE)
def test_refuses_what_is_not_idx_without_allocating(tmp_path: Path, case: str, pack) -> None:
    content, message = HOSTILE[case]
    path = tmp_path / "x.gz"
    path.write_bytes(pack(content))
    tracemalloc.start()
    with pytest.raises(CapsNetError, match=message):
        read_idx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_refuses_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    packed = bytearray(gzip.compress(idx_bytes(np.zeros((10, 28, 28), np.uint8))))
    packed[len(packed) // 2] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(CapsNetError, match=r"x\.gz"):
        read_idx(path)
    path.write_bytes(gzip.compress(WHOLE)[:-12])
    with pytest.raises(CapsNetError, match=r"x\.gz"):
        read_idx(path)


def test_a_bomb_is_not_unpacked_past_what_it_claims(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(WHOLE + bytes(200_000_000), 9))
    tracemalloc.start()
    with pytest.raises(CapsNetError, match="goes on after"):
        read_idx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_wrong_number_of_dimensions_and_wrong_digest(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(WHOLE)
    with pytest.raises(CapsNetError, match="has 3 dimensions where 1 are expected"):
        read_idx(path, ndim=1)
    with pytest.raises(CapsNetError, match="is not the file it should be"):
        read_idx(path, sha256="0" * 64)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(CapsNetError, match="cannot be read: No such file"):
        read_idx(tmp_path / "nothing.gz")
    with pytest.raises(CapsNetError, match="cannot be read: Is a directory"):
        read_idx(tmp_path)


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused_in_one_sentence(tmp_path_factory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(content)
    try:
        array = read_idx(path).array
    except CapsNetError:
        return
    assert idx_bytes(array) == content


def test_reads_numbers_of_16_bits_in_this_machine_s_order(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    numbers = np.array([0, 1, 258, 2349, -5], dtype=">i2")
    content = struct.pack(">BBBBI", 0, 0, 0x0B, 1, 5) + numbers.tobytes()
    path.write_bytes(gzip.compress(content))
    array, sha256 = read_idx(path, ndim=1, kind="shorts")
    assert array.dtype == np.int16
    assert array.tolist() == [0, 1, 258, 2349, -5]
    assert sha256 == hashlib.sha256(content).hexdigest()
    with pytest.raises(CapsNetError, match="not an idx file of bytes"):
        read_idx(path)
