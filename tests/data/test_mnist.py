"""MNIST as it is bundled: known counts and values, and refusal of altered files."""

import gzip
import hashlib
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from capsnet.data import load_dataset
from capsnet.data import mnist as module
from capsnet.data.base import DataSet
from capsnet.data.mnist import BUNDLED, FILES, WRITERS, read_mnist_like, read_writers
from capsnet.errors import CapsNetError

TRAIN_HISTOGRAM = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_HISTOGRAM = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
# Of the packed files, as they are published.
MD5 = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}


@pytest.fixture(scope="module")
def mnist() -> DataSet:
    return load_dataset("mnist")


@pytest.fixture(scope="module")
def slant(mnist: DataSet) -> Tensor:
    """How far each training image leans, in standard deviations of its class."""
    images = mnist.train.images[:, 0].double()
    row, column = torch.arange(28.0).view(28, 1), torch.arange(28.0).view(1, 28)
    ink = images.sum(dim=(1, 2))
    y, x = ((images * place).sum(dim=(1, 2)).div(ink).view(-1, 1, 1) for place in (row, column))
    upright = (images * (row - y).square()).sum(dim=(1, 2))
    slant = (images * (row - y) * (column - x)).sum(dim=(1, 2)) / upright
    for label in range(10):
        own = mnist.train.labels == label
        slant[own] = (slant[own] - slant[own].mean()) / slant[own].std()
    return slant


def test_counts_and_class_histograms_are_the_published_ones(mnist: DataSet) -> None:
    assert mnist.train.images.shape == (60_000, 1, 28, 28)
    assert mnist.test.images.shape == (10_000, 1, 28, 28)
    assert mnist.train.images.dtype == torch.uint8
    assert mnist.train.labels.bincount().tolist() == TRAIN_HISTOGRAM
    assert mnist.test.labels.bincount().tolist() == TEST_HISTOGRAM
    assert mnist.train.labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert mnist.class_names == tuple("0123456789")


def test_mean_and_deviation_are_the_known_ones(mnist: DataSet) -> None:
    pixels = mnist.train.images.double() / 255
    assert float(pixels.mean()) == pytest.approx(0.1307, abs=5e-5)
    assert float(pixels.std()) == pytest.approx(0.3081, abs=5e-5)


def test_pixels_are_divided_by_256(mnist: DataSet) -> None:
    batch = next(mnist.evaluation_batches(mnist.test, 100))
    assert batch.images.dtype == torch.float32
    assert torch.equal(batch.images, mnist.test.images[:100] / 256)
    assert float(batch.images.max()) == 255 / 256


def test_bundled_files_are_the_published_ones_bit_for_bit() -> None:
    for name, md5 in MD5.items():
        assert hashlib.md5((BUNDLED / name).read_bytes(), usedforsecurity=False).hexdigest() == md5


def test_the_licence_lies_beside_the_files() -> None:
    text = (BUNDLED / "LICENSE.md").read_text()
    assert all(name in text for name in ("LeCun", "Cortes", "Burges", "CC BY-SA 3.0"))


def test_digests_name_every_file_read(mnist: DataSet) -> None:
    assert dict(mnist.digests) == FILES


def test_an_altered_file_is_refused(tmp_path: Path) -> None:
    shutil.copytree(BUNDLED, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "t10k-labels-idx1-ubyte.gz"
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[100] ^= 1
    path.write_bytes(gzip.compress(bytes(content)))
    with pytest.raises(CapsNetError, match=r"t10k-labels-idx1-ubyte\.gz is not the file it should be"):
        read_mnist_like(tmp_path, FILES)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CapsNetError, match=r"train-images-idx3-ubyte\.gz is missing"):
        read_mnist_like(tmp_path, FILES)


def test_the_default_augmentation_is_byerly(mnist: DataSet) -> None:
    assert next(iter(mnist.augmentations)) == "byerly"


def test_every_training_image_has_its_writer(mnist: DataSet) -> None:
    writers = mnist.groups["writers"]
    assert writers.shape == (60_000,)
    assert len(writers.unique()) == 539
    census, students = writers[writers < 2000], writers[writers >= 2000]
    assert (len(census.unique()), len(census)) == (289, 30_950)
    assert (len(students.unique()), len(students)) == (250, 29_050)
    # From QMNIST's table, whose classes equal MNIST's labels.
    assert writers[:6].tolist() == [2154, 0, 2232, 0, 2168, 0]


def test_the_writers_of_the_test_images_are_other_people(mnist: DataSet) -> None:
    writers = mnist.test_groups["writers"]
    assert writers.shape == (10_000,)
    assert len(writers.unique()) == 297
    assert not set(writers.tolist()) & set(mnist.groups["writers"].tolist())
    assert int((writers >= 2000).sum()) == 5001
    assert writers[:3].tolist() == [2578, 2359, 2530]


def test_images_of_a_writer_are_alike_in_slant(mnist: DataSet, slant: Tensor) -> None:
    """The writers belong to the images: a shuffled list would leave the slant's variance as it is."""
    writers = mnist.groups["writers"]
    _, place = writers.unique(return_inverse=True)
    counts = place.bincount()
    mean = torch.zeros(len(counts), dtype=slant.dtype).scatter_add(0, place, slant) / counts
    assert float((slant - mean[place]).var()) < 0.7 * float(slant.var())


def test_the_writers_licence_lies_beside_them() -> None:
    text = (WRITERS / "LICENSE.md").read_text(encoding="utf-8")
    assert all(word in text for word in ("Yadav", "Bottou", "QMNIST", "BSD License", "Facebook, Inc."))


def test_altered_writers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "train-writers-idx1-short.gz"
    content = bytearray(gzip.decompress((WRITERS / name).read_bytes()))
    content[100] ^= 1
    (tmp_path / name).write_bytes(gzip.compress(bytes(content)))
    monkeypatch.setattr(module, "WRITERS", tmp_path)
    with pytest.raises(CapsNetError, match=r"short\.gz is not the file it should be"):
        read_writers("train")


def test_the_training_images_are_stored_writer_by_writer(slant: Tensor) -> None:
    """Why `hold_out="stretches"` exists: images of two series of writers take turns, and slant like those before."""
    likeness = {lag: float((slant[:-lag] * slant[lag:]).mean()) for lag in (1, 2, 20, 2000)}
    assert likeness[2] > 0.4
    assert likeness[20] > 0.4
    assert likeness[2000] < 0.25
    assert likeness[1] < 0
