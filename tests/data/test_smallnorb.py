"""smallNORB: its file format, whole and damaged, on small files in that format; pre-processing, augmentation, viewpoints."""

import gzip
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Generator

from capsnet.data import load_dataset, smallnorb
from capsnet.data.base import Split
from capsnet.data.norb_format import read_matrix
from capsnet.data.view_input import channel_statistics, vary_view
from capsnet.data.viewpoints import ViewDataSet, choose_protocol, norb_views
from capsnet.errors import CapsNetError

MAGIC = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}


def matrix_bytes(array: np.ndarray) -> bytes:
    sizes = list(array.shape) + [1] * (3 - array.ndim)
    return struct.pack(f"<ii{len(sizes)}i", MAGIC[array.dtype.name], array.ndim, *sizes) + array.tobytes()


def factorial(instances: list[int]) -> np.ndarray:
    """Category and info of one instance-lighting slice of the design: 5 categories x instances x 9 x 18."""
    rows = [
        (category, instance, elevation, azimuth, 0)
        for category in range(5)
        for instance in instances
        for elevation in range(9)
        for azimuth in range(0, 36, 2)
    ]
    return np.array(rows, dtype=np.int32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny smallNORB: packed training files, plain test files."""
    rng = np.random.default_rng(0)
    for part, instances in ((smallnorb.TRAIN, [4]), (smallnorb.TEST, [0])):
        table = factorial(instances)[::9]
        images = rng.integers(0, 256, (len(table), 2, 96, 96), dtype=np.uint8)
        for kind, array in (("dat", images), ("cat", table[:, 0].copy()), ("info", table[:, 1:].copy())):
            content = matrix_bytes(array)
            if part == smallnorb.TRAIN:
                (tmp_path / f"{part}-{kind}.mat.gz").write_bytes(gzip.compress(content, 1))
            else:
                (tmp_path / f"{part}-{kind}.mat").write_bytes(content)
    monkeypatch.setattr(smallnorb, "FILES", dict.fromkeys(smallnorb.FILES))
    return tmp_path


def load(folder: Path, **options: str) -> ViewDataSet:
    data = load_dataset("smallnorb", data_dir=folder, **options)
    assert isinstance(data, ViewDataSet)
    return data


def test_reads_packed_and_plain_files(folder: Path) -> None:
    data = load(folder)
    assert data.train.images.shape == (90, 2, 96, 96)
    assert data.image_shape == (2, 48, 48)
    assert data.class_names == ("animal", "human", "airplane", "truck", "car")
    assert data.train.labels.bincount().tolist() == [18] * 5
    assert data.train_views is not None
    assert data.test_views is not None
    assert data.train_views.objects.unique().tolist() == [4, 14, 24, 34, 44]
    assert data.test_views.objects.unique().tolist() == [0, 10, 20, 30, 40]
    assert torch.equal(data.groups["objects"], data.train_views.objects)
    assert len(data.digests) == 6


def test_the_published_digests_are_asked_for() -> None:
    asked = [digest for digest in smallnorb.FILES.values() if digest]
    assert len(asked) == 2
    assert {len(digest) for digest in asked} == {64}


def whole_design(instances: list[int], rng: np.random.Generator) -> np.ndarray:
    table = np.concatenate([factorial(instances) + np.array([0, 0, 0, 0, lighting]) for lighting in range(6)])
    return rng.permutation(table).astype(np.int32)


@pytest.mark.parametrize(
    ("part", "instances"), [(smallnorb.TRAIN, [4, 6, 7, 8, 9]), (smallnorb.TEST, [0, 1, 2, 3, 5])]
)
def test_downloaded_labels_are_compared_with_the_published_design(
    tmp_path: Path, part: str, instances: list[int]
) -> None:
    table = whole_design(instances, np.random.default_rng(0))
    path = tmp_path / "file"

    def check(kind: str, array: np.ndarray) -> None:
        path.write_bytes(matrix_bytes(np.ascontiguousarray(array)))
        smallnorb.check_download(path, f"{part}-{kind}.mat")

    check("cat", table[:, 0])
    check("info", table[:, 1:])
    other = [4 if instance != 4 else 0 for instance in instances]
    changed = table.copy()
    changed[17, [0, 3]] = (changed[17, 0] + 1) % 5, (changed[17, 3] + 2) % 36
    wrong = {
        "one label": ("cat", changed[:, 0]),
        "one azimuth": ("info", changed[:, 1:]),
        "a row less": ("cat", table[:-1, 0]),
        "other instances": ("info", whole_design(other[:1] + instances[1:], np.random.default_rng(0))[:, 1:]),
        "nothing": ("info", np.zeros((0, 4), np.int32)),
        "zeros": ("cat", np.zeros(24_300, np.int32)),
    }
    for kind, array in wrong.values():
        with pytest.raises(CapsNetError, match="smallNORB's design"):
            check(kind, array)


@pytest.mark.parametrize("array", [np.arange(12, dtype=np.int32), np.ones((2, 3, 4, 5), np.uint8)])
def test_matrix_files_come_back(tmp_path: Path, array: np.ndarray) -> None:
    path = tmp_path / "x.mat"
    path.write_bytes(matrix_bytes(array))
    got = read_matrix(path, ndim=array.ndim, dtype=array.dtype.str[1:]).array
    np.testing.assert_array_equal(got, array)


WHOLE = matrix_bytes(np.ones((4, 2, 3, 3), np.uint8))
HOSTILE = {
    "empty": (b"", "not a NORB matrix"),
    "text": (b"a text of some length, but no matrix", "not a NORB matrix"),
    "idx": (b"\0\0\x08\3" + bytes(40), "not a NORB matrix"),
    "other type": (matrix_bytes(np.ones((4, 2, 3, 3), np.int32)), "4 dimensions of int32 where 4 of uint8"),
    "other dimensions": (matrix_bytes(np.ones(4, np.uint8)), "1 dimensions of uint8 where 4"),
    "cut in the header": (WHOLE[:12], "cut short in its header"),
    "terabytes": (struct.pack("<ii4i", 0x1E3D4C55, 4, 2**31 - 1, 2**20, 96, 96), "not what it can hold"),
    "negative": (struct.pack("<ii4i", 0x1E3D4C55, 4, -1, -1, 96, 96) + bytes(100), "not what it can hold"),
    "cut": (WHOLE[:-1], "cut short|not what it can hold"),
    "trailing": (WHOLE + b"x", "goes on after"),
}


@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["packed", "plain"])
@pytest.mark.parametrize("case", HOSTILE)
def test_damaged_files_are_refused_without_allocating(tmp_path: Path, case: str, pack) -> None:
    content, message = HOSTILE[case]
    path = tmp_path / "x.mat"
    path.write_bytes(pack(content))
    tracemalloc.start()
    with pytest.raises(CapsNetError, match=message):
        read_matrix(path, ndim=4, dtype="u1")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_size_of_zero_does_not_excuse_the_others(tmp_path: Path) -> None:
    path = tmp_path / "x.mat"
    path.write_bytes(struct.pack("<6i", MAGIC["uint8"], 4, 0, 2**31 - 1, 2**31 - 1, 2**31 - 1))
    with pytest.raises(CapsNetError, match="it is damaged"):
        read_matrix(path, ndim=4, dtype="u1")


def test_files_that_do_not_fit_together_are_refused(folder: Path) -> None:
    (folder / f"{smallnorb.TEST}-cat.mat").write_bytes(matrix_bytes(np.zeros(7, np.int32)))
    with pytest.raises(CapsNetError, match="don't fit together"):
        load(folder)
    (folder / f"{smallnorb.TEST}-cat.mat").write_bytes(matrix_bytes(np.full(90, 5, np.int32)))
    with pytest.raises(CapsNetError, match="other categories than 0 to 4"):
        load(folder)


def test_a_missing_set_says_which_files_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smallnorb, "SOURCES", ("http://127.0.0.1:9/{}",))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CAPSNET_DATA", raising=False)
    with pytest.raises(CapsNetError) as error:
        load(tmp_path / "here")
    assert all(f"{name}.gz" in str(error.value) for name in smallnorb.FILES)
    assert str(tmp_path / "here" / "smallnorb") in str(error.value)


def test_statistics_are_the_exact_ones_of_each_channel(folder: Path) -> None:
    images = load(folder).train.images
    mean, std = channel_statistics(images)
    for channel in range(2):
        pixels = images[:, channel].double() / 255
        assert mean[channel] == pytest.approx(float(pixels.mean()), abs=1e-12)
        assert std[channel] == pytest.approx(float(pixels.std(correction=0)), abs=1e-12)


def test_evaluation_is_the_standardised_centre_crop(folder: Path) -> None:
    data = load(folder)
    batch = next(data.evaluation_batches(data.test, 8))
    assert batch.images.shape == (8, 2, 48, 48)
    torch.testing.assert_close(
        batch.images, data.preprocessing.resized(data.test.images[:8])[..., 8:56, 8:56]
    )
    whole = data.preprocessing.resized(data.train.images)
    assert whole.mean(dim=(0, 2, 3)).tolist() == pytest.approx([0, 0], abs=1e-3)


def test_paper_augmentation_is_a_crop_with_brightness_and_contrast(folder: Path) -> None:
    data = load(folder)
    images = data.train.images[:40]
    out = data.augmentations["paper"](images, Generator().manual_seed(0))
    assert out.shape == (40, 2, 48, 48)
    assert torch.equal(out, data.augmentations["paper"](images, Generator().manual_seed(0)))
    resized = data.preprocessing.resized(images)
    windows = resized.unfold(2, 48, 1).unfold(3, 48, 1)
    shifts, factors, places = [], [], set()
    for image, candidates in zip(out, windows, strict=True):
        # Undo brightness and contrast: centred and scaled, one of the 17 x 17 windows must fit exactly.
        flat = candidates.permute(1, 2, 0, 3, 4).flatten(0, 1)
        centred = flat - flat.mean(dim=(2, 3), keepdim=True)
        seen = image - image.mean(dim=(1, 2), keepdim=True)
        ratio = (centred * seen).sum(dim=(1, 2, 3)) / centred.square().sum(dim=(1, 2, 3))
        error = (centred * ratio[:, None, None, None] - seen).square().mean(dim=(1, 2, 3))
        best = int(error.argmin())
        assert float(error[best]) < 1e-8
        places.add(best)
        factors.append(float(ratio[best]))
        shift = image.mean(dim=(1, 2)) - flat[best].mean(dim=(1, 2))
        torch.testing.assert_close(shift[0], shift[1], atol=1e-4, rtol=0)
        shifts.append(float(shift[0]))
    assert 0.5 <= min(factors) < 0.65
    assert 1.35 < max(factors) <= 1.5
    assert -2 <= min(shifts) < -1.5
    assert 1.5 < max(shifts) <= 2
    assert len(places) > 30


def test_hinton_option(folder: Path) -> None:
    data = load(folder, preprocessing="hinton")
    assert data.image_shape == (2, 32, 32)
    assert list(data.augmentations) == ["hinton"]
    for images in (
        data.augmentations["hinton"](data.train.images[:8], Generator().manual_seed(0)),
        next(data.evaluation_batches(data.test, 8)).images,
    ):
        assert images.shape == (8, 2, 32, 32)
        torch.testing.assert_close(images.mean(dim=(1, 2, 3)), torch.zeros(8), atol=1e-5, rtol=0)
    with pytest.raises(CapsNetError, match="no pre-processing 'other'; there are: hinton, paper, whole"):
        load(folder, preprocessing="other")


def test_no_change_at_the_middle_of_both_ranges(folder: Path) -> None:
    data = load(folder)
    images = data.train.images[:4]
    out = vary_view(
        images,
        Generator().manual_seed(0),
        preprocessing=data.preprocessing,
        brightness=0.0,
        contrast=(1.0, 1.0),
    )
    assert out.shape == (4, 2, 48, 48)
    windows = (
        data.preprocessing.resized(images)
        .unfold(2, 48, 1)
        .unfold(3, 48, 1)
        .permute(2, 3, 0, 1, 4, 5)
        .flatten(0, 1)
    )
    assert bool(((windows - out).abs().amax(dim=(2, 3, 4)) < 1e-5).any(dim=0).all())


def test_novel_azimuths_and_elevations_are_hintons(folder: Path) -> None:
    table = torch.from_numpy(factorial([4])).long()
    n = len(table)
    split = Split(torch.zeros(n, 2, 4, 4, dtype=torch.uint8), table[:, 0])
    seen = norb_views(table[:, 0], table[:, 1:])
    objects = {"objects": seen.objects}
    data = replace(load(folder), train=split, test=split, train_views=seen, test_views=seen, groups=objects)
    novel, familiar = (choose_protocol(data, views=name) for name in ("azimuth", "azimuth_familiar"))
    assert familiar.train_views is not None
    assert novel.test_views is not None
    assert familiar.train_views.azimuth.unique().tolist() == [0, 20, 40, 300, 320, 340]
    assert novel.test_views.azimuth.unique().tolist() == list(range(60, 300, 20))
    assert len(familiar.train.labels) == len(familiar.test.labels) == n // 3
    assert len(novel.test.labels) == 2 * n // 3
    assert torch.equal(novel.train.labels, familiar.train.labels)
    novel, familiar = (choose_protocol(data, views=name) for name in ("elevation", "elevation_familiar"))
    assert familiar.train_views is not None
    assert novel.test_views is not None
    assert familiar.train_views.elevation.unique().tolist() == [30, 35, 40]
    assert novel.test_views.elevation.unique().tolist() == [45, 50, 55, 60, 65, 70]
    assert torch.equal(novel.train.labels, familiar.train.labels)


def test_the_sizes_are_the_papers_unless_another_is_asked_for(folder: Path) -> None:
    assert load(folder).preprocessing.resize == (64, 64)
    assert load(folder, preprocessing="hinton").preprocessing.resize == (48, 48)
    large = load_dataset("smallnorb", data_dir=folder, image_size=72)
    assert (large.image_shape, large.preprocessing.resize) == ((2, 72, 72), (96, 96))
    whole = load_dataset("smallnorb", data_dir=folder, preprocessing="whole", image_size=32)
    assert whole.preprocessing.apply(whole.test.images[:2]).shape == (2, 2, 32, 32)
    for size in (19, 257):
        with pytest.raises(CapsNetError, match="An image size is 20 to 256 pixels"):
            load_dataset("smallnorb", data_dir=folder, image_size=size)
