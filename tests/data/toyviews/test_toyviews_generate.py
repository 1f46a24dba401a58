"""Small sets made as the whole one is: complete, the same each time, resumed, and refused when damaged."""

import errno
import json
import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest

from capsnet.data.toyviews import CATEGORIES, Design, generate, load, make
from capsnet.data.toyviews.design import SPLITS, factors
from capsnet.errors import CapsNetError

SMALL = Design(elevations=(0, 8), azimuths=(0, 10), instances=1, size=24)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("toyviews"), seed=3, workers=2, design=SMALL)


@pytest.mark.parametrize("split", SPLITS)
def test_the_whole_design_has_every_combination_of_factors_exactly_once(split: str) -> None:
    labels, info = factors(Design(), split, seed=0)
    assert len(labels) == Design().pairs == 24_300
    rows = np.unique(np.column_stack([labels, info]), axis=0)
    assert len(rows) == 24_300
    for column, values in ((1, range(9)), (2, range(0, 36, 2)), (3, range(6))):
        assert sorted(set(info[:, column])) == list(values)
    assert [len(set(info[labels == category, 0])) for category in range(5)] == [5] * 5


def test_training_and_test_share_no_instance() -> None:
    for seed in (0, 1):
        seen = [set(zip(*_members(split, seed), strict=True)) for split in SPLITS]
        assert not seen[0] & seen[1]
        assert len(seen[0] | seen[1]) == 50


def _members(split: str, seed: int) -> tuple[list[int], list[int]]:
    labels, info = factors(Design(), split, seed=seed)
    return labels.tolist(), info[:, 0].tolist()


def test_any_stretch_of_a_split_is_balanced() -> None:
    labels, _ = factors(Design(), "train", seed=0)
    assert np.bincount(labels[123 : 123 + 50]).tolist() == [10] * 5


def test_load_gives_images_labels_and_info_of_each_split(made: Path) -> None:
    data = load(made)
    assert set(data) == set(SPLITS)
    for split in SPLITS:
        arrays = data[split]
        assert arrays["images"].shape == (SMALL.pairs, 2, 24, 24)
        assert all(array.dtype == np.uint8 for array in arrays.values())
        labels, info = factors(SMALL, split, seed=3)
        np.testing.assert_array_equal(arrays["labels"], labels)
        np.testing.assert_array_equal(arrays["info"], info)


def test_each_picture_stands_beside_its_own_factors(made: Path) -> None:
    arrays = load(made, ["test"])["test"]
    category, instance = 2, SMALL.lot("test", 2, seed=3)[0]
    pictures = generate.render_instance(category, instance, seed=3, design=SMALL)
    for view, (elevation, azimuth) in enumerate([(0, 0), (0, 10), (8, 0), (8, 10)]):
        for lighting in range(6):
            row = (arrays["info"] == [instance, elevation, azimuth, lighting]).all(axis=1)
            row &= arrays["labels"] == category
            np.testing.assert_array_equal(arrays["images"][row][0], pictures[view, lighting])


def test_one_worker_and_an_interruption_give_the_identical_files(made: Path, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, seed=3, workers=1, design=SMALL, progress=stop)
    with pytest.raises(CapsNetError, match="capsnet data make toyviews"):
        load(tmp_path)
    part = next((tmp_path / ".parts").glob("*/*.npy"))
    part.write_bytes(part.read_bytes()[:-5])
    counts: list[tuple[int, int]] = []
    make(tmp_path, seed=3, workers=1, design=SMALL, progress=lambda *count: counts.append(count))
    assert counts[0] == (3, 10), "three instances were whole, the shortened one is rendered again"
    assert counts[-1] == (10, 10)
    for name in ("train.npz", "test.npz", "toyviews.json"):
        assert (tmp_path / name).read_bytes() == (made / name).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.npz", "toyviews.json", "train.npz"]


def test_a_complete_set_is_left_as_it_is(made: Path) -> None:
    before = (made / "train.npz").stat().st_mtime_ns
    counts: list[tuple[int, int]] = []
    make(made, seed=3, workers=1, design=SMALL, progress=lambda *count: counts.append(count))
    assert counts == [(10, 10)]
    assert (made / "train.npz").stat().st_mtime_ns == before


def test_the_manifest_says_where_the_pictures_come_from(made: Path) -> None:
    manifest = json.loads((made / "toyviews.json").read_text())
    assert (manifest["seed"], manifest["categories"]) == (3, list(CATEGORIES))
    assert all(len(set(kinds)) == 10 for kinds in manifest["kinds"])


def _copy(made: Path, to: Path) -> Path:
    for path in made.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    return to


def test_an_empty_folder_says_how_to_make_the_set(tmp_path: Path) -> None:
    with pytest.raises(CapsNetError, match=r"not in .*run `capsnet data make toyviews`"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["train.npz", "toyviews.json"])
def test_a_damaged_file_is_named(made: Path, tmp_path: Path, name: str) -> None:
    path = _copy(made, tmp_path) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content[:-3])
    with pytest.raises(CapsNetError, match=rf"{name} of toyviews is damaged.*capsnet data make toyviews"):
        load(tmp_path)


def test_a_missing_split_is_named(made: Path, tmp_path: Path) -> None:
    (_copy(made, tmp_path) / "test.npz").unlink()
    with pytest.raises(CapsNetError, match=r"test\.npz of toyviews is missing"):
        load(tmp_path)
    assert set(load(tmp_path, ["train"])) == {"train"}


def test_a_manifest_that_claims_too_much_is_refused_before_memory_is_taken(
    made: Path, tmp_path: Path
) -> None:
    path = _copy(made, tmp_path) / "toyviews.json"
    manifest = json.loads(path.read_text())
    manifest["splits"]["train"]["pairs"] = 10**12
    path.write_text(json.dumps(manifest))
    with pytest.raises(CapsNetError, match="damaged"):
        load(tmp_path)


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CapsNetError, match=r"could not be written in .*file"):
        make(tmp_path / "file", seed=3, workers=1, design=SMALL)


@pytest.mark.parametrize("writes", range(0, 14, 3))
def test_a_full_disk_leaves_no_unfinished_file_and_the_next_call_goes_on(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    left = [writes]

    def fsync(handle: int) -> None:
        left[0] -= not stat.S_ISDIR(os.fstat(handle).st_mode)
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fsync)
        with pytest.raises(CapsNetError, match=r"No space left on device.*2 GB of free space"):
            make(tmp_path, seed=3, workers=1, design=SMALL)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(re.fullmatch(r"\w+-\d\.[0-9a-f]{32}\.npy", path.name) for path in files), files
    assert len(files) == min(writes, 10)
    make(tmp_path, seed=3, workers=1, design=SMALL)
    assert (tmp_path / "train.npz").read_bytes() == (made / "train.npz").read_bytes()


def test_as_many_workers_as_cores_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    monkeypatch.setattr(generate, "cores", lambda: 7)
    monkeypatch.setattr(generate, "_render_all", lambda *given: taken.append(given[-1]) or iter(()))
    with pytest.raises(AssertionError):  # nothing was rendered
        make(tmp_path, seed=3, design=SMALL)
    assert taken == [7]
