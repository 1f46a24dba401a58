"""One's own arrays in an .npz file: layouts, labels, and hostile files."""

import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capsnet.data import load_dataset
from capsnet.errors import CapsNetError

RNG = np.random.default_rng(0)
X, Y = RNG.integers(0, 256, (40, 20, 24, 3), dtype=np.uint8), np.arange(40) % 4


def saved(tmp_path: Path, compressed: bool = False, **arrays: Any) -> str:
    path = tmp_path / "own.npz"
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return str(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_pictures_and_labels_come_back(tmp_path: Path, compressed: bool) -> None:
    path = saved(tmp_path, compressed, x_train=X, y_train=Y, x_test=X[:8], y_test=Y[:8])
    data = load_dataset(path)
    assert data.image_shape == (3, 20, 24)
    assert data.class_names == ("0", "1", "2", "3")
    np.testing.assert_array_equal(data.train.images.numpy(), X.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(data.test.labels.numpy(), Y[:8])


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (X[..., 0], (1, 20, 24)),
        (X[..., :1], (1, 20, 24)),
        (X.transpose(0, 3, 1, 2), (3, 20, 24)),
        (X / 255, (3, 20, 24)),
        (X.astype(np.float32), (3, 20, 24)),
        (X.astype(np.int64), (3, 20, 24)),
    ],
)
def test_layouts_and_number_types_mean_the_same(
    tmp_path: Path, x: np.ndarray, shape: tuple[int, ...]
) -> None:
    data = load_dataset(saved(tmp_path, x_train=x, y_train=Y, x_test=x, y_test=Y))
    assert data.image_shape == shape
    np.testing.assert_array_equal(data.train.images[:, 0].numpy(), X[..., 0])


@pytest.mark.parametrize("y", [Y[:, None], np.eye(4)[Y], Y.astype(np.float32), Y.astype(np.uint8)])
def test_labels_in_columns_one_hot_and_floats(tmp_path: Path, y: np.ndarray) -> None:
    data = load_dataset(saved(tmp_path, x_train=X, y_train=y, x_test=X, y_test=y))
    np.testing.assert_array_equal(data.train.labels.numpy(), Y)


def test_class_names_labels_with_gaps_and_names_as_labels(tmp_path: Path) -> None:
    data = load_dataset(saved(tmp_path, x_train=X, y_train=Y, class_names=np.array(["a", "b", "c", "d"])))
    assert data.class_names == ("a", "b", "c", "d")
    data = load_dataset(saved(tmp_path, x_train=X, y_train=10 * Y))
    assert data.class_names == ("0", "10", "20", "30")
    data = load_dataset(saved(tmp_path, x_train=X, y_train=np.array(["cat", "dog"])[Y % 2]))
    assert data.class_names == ("cat", "dog")


def test_a_fifth_is_set_aside_without_a_test_part(tmp_path: Path) -> None:
    path = saved(tmp_path, x_train=X, y_train=Y)
    counted = load_dataset(path, split="order")
    assert counted.train.labels.bincount().tolist() == [8, 8, 8, 8]
    data = load_dataset(path)
    assert len(data.train.labels) + len(data.test.labels) == 40
    assert 1 <= data.test.labels.bincount().min() <= data.test.labels.bincount().max() <= 5


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": X}, "has no array y_train"),
        ({"x_train": X, "y_train": Y, "x_test": X}, "only one of x_test and y_test"),
        ({"x_train": X, "y_train": Y[:-1]}, "40 pictures but 39 labels"),
        ({"x_train": X, "y_train": np.zeros((40, 0))}, "y_train has no labels"),
        ({"x_train": X, "y_train": np.where(Y == 1, np.inf, Y)}, "y_train has no labels"),
        ({"x_train": X, "y_train": np.where(Y == 1, 1e30, Y)}, "y_train has no labels"),
        (
            {"x_train": X, "y_train": Y, "class_names": np.array(["a", "a", "b", "c"])},
            "Two classes have the same name, 'a'",
        ),
        ({"x_train": X[:, 0, 0], "y_train": Y}, "not that of pictures"),
        ({"x_train": X - 300.0, "y_train": Y}, "other values than bytes"),
        ({"x_train": X * np.nan, "y_train": Y}, "other values than bytes"),
        ({"x_train": X / 250, "y_train": Y}, "x_train has fractions up to 1.02"),
        (
            {"x_train": X / 255, "y_train": Y, "x_test": X.astype(np.float32), "y_test": Y},
            "one of x_train and x_test has fractions 0 to 1, the other more",
        ),
        ({"x_train": X, "y_train": Y + 0.5}, "has no labels"),
        ({"x_train": X, "y_train": 0 * Y}, "has 1 class"),
        ({"x_train": X, "y_train": Y, "class_names": np.array(["a", "b"])}, "names 2 classes"),
        ({"x_train": X, "y_train": Y, "x_test": X[:, :10], "y_test": Y}, "different shapes"),
        ({"x_train": X, "y_train": Y, "x_test": X, "y_test": Y + 1}, "no training pictures of class '4'"),
        ({"x_train": X[:0], "y_train": Y[:0], "class_names": np.array(["a", "b"])}, "y_train has no labels"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(CapsNetError, match=message):
        load_dataset(saved(tmp_path, **arrays))


@pytest.mark.parametrize(
    "header", ["{'descr': (", "[" * 90, "{'descr': '|u1', 'shape': None}", "  {\n {", "\x00"]
)
def test_a_header_that_is_no_python_is_refused(tmp_path: Path, header: str) -> None:
    text = f"{header:117}\n".encode()
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x_train.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(CapsNetError, match="is not a whole"):
        load_dataset(str(tmp_path / "x.npz"))


@pytest.mark.parametrize("order", ["<", ">"])
def test_text_that_is_no_unicode_is_refused(tmp_path: Path, order: str) -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 20, 20), np.uint8)
    words = np.array(["cat", "dog"] * 6, dtype=f"{order}U3")
    path = saved(tmp_path, x_train=images, y_train=words)
    assert load_dataset(path).class_names == ("cat", "dog")
    words.view(f"{order}u4")[4] = 0x110000
    path = saved(tmp_path, x_train=images, y_train=words)
    with pytest.raises(CapsNetError, match="is no Unicode"):
        load_dataset(path)


def test_python_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (pytest.fail, ("unpickled",))

    path = saved(tmp_path, x_train=np.array([Trap()], dtype=object), y_train=Y)
    with pytest.raises(CapsNetError, match="holds Python objects"):
        load_dataset(path)


def lying(shape: tuple[int, ...], body: bytes = bytes(100)) -> bytes:
    """An .npy whose header claims any shape."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return file.getvalue() + body


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_header_that_claims_terabytes_is_refused_without_allocating(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "own.npz"
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("x_train.npy", lying((2**20, 2**10, 2**10)))
    tracemalloc.start()
    with pytest.raises(CapsNetError, match="more than it can hold"):
        load_dataset(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


@pytest.mark.parametrize("content", [b"", b"text", b"PK\3\4" + bytes(100)])
def test_what_is_no_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    with pytest.raises(CapsNetError, match=r"is not a whole \.npz file"):
        load_dataset(str(path))


def test_cut_and_altered_files_are_refused(tmp_path: Path) -> None:
    path = Path(saved(tmp_path, x_train=X, y_train=Y))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CapsNetError, match=r"own\.npz"):
        load_dataset(str(path))
    altered = bytearray(content)
    altered[5000] ^= 0xFF
    path.write_bytes(altered)
    with pytest.raises(CapsNetError, match=r"own\.npz"):
        load_dataset(str(path))
    with pytest.raises(CapsNetError, match="There is no file"):
        load_dataset(str(tmp_path / "nothing.npz"))
