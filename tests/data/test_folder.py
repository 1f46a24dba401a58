"""One's own folder of pictures: layouts, sizes, what is left out, and hostile folders."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from capsnet.data import load_dataset
from capsnet.data.folder import load_folder
from capsnet.data.own import OwnDataSet
from capsnet.errors import CapsNetError

from .test_pictures import bomb

COLOURS = {"blue": (20, 30, 200), "green": (30, 180, 40), "red": (210, 20, 30)}


def make(folder: Path, per_class: int = 10, size: tuple[int, int] = (40, 30), mode: str = "RGB") -> Path:
    """Pictures of one colour a class, with some noise."""
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for n in range(per_class):
            noisy = np.array(colour) + rng.integers(-15, 15, (*size, 3))
            picture = Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).convert(mode)
            picture.save(folder / name / f"{n:03}.{('png', 'jpg', 'webp', 'bmp')[n % 4]}")
    return folder


def load(folder: Path, **options: object) -> OwnDataSet:
    data = load_dataset(str(folder), **options)
    assert isinstance(data, OwnDataSet)
    return data


def test_classes_are_folders_and_a_fifth_of_each_is_set_aside(tmp_path: Path) -> None:
    folder = make(tmp_path / "mine")
    counted = load(folder, split="order")
    assert counted.train.labels.bincount().tolist() == [8, 8, 8]
    assert counted.test.labels.bincount().tolist() == [2, 2, 2]
    data = load(folder)
    assert data.class_names == ("blue", "green", "red")
    assert (data.train.labels.bincount() + data.test.labels.bincount()).tolist() == [10, 10, 10]
    assert int(data.test.labels.bincount().min()) >= 1
    assert data.image_shape == (3, 40, 30)
    assert data.preprocessing.to_dict()["kind"] == "picture"
    for label, colour in enumerate(COLOURS.values()):
        mean = data.train.images[data.train.labels == label].float().mean(dim=(0, 2, 3))
        assert mean.tolist() == pytest.approx(colour, abs=12)


def test_reading_again_gives_the_same_bits(tmp_path: Path) -> None:
    folder = make(tmp_path / "mine")
    first, again = load(folder), load(folder)
    assert torch.equal(first.train.images, again.train.images)
    assert torch.equal(first.test.labels, again.test.labels)
    assert dict(first.digests) == dict(again.digests)


def test_train_and_test_folders_are_the_two_parts(tmp_path: Path) -> None:
    make(tmp_path / "train", 5)
    make(tmp_path / "test", 3)
    data = load(tmp_path)
    assert len(data.train.labels) == 15
    assert len(data.test.labels) == 9
    (tmp_path / "test" / "yellow").mkdir()
    with pytest.raises(CapsNetError, match="yellow is a class that the training pictures don't have"):
        load(tmp_path)


def test_sizes_are_the_pictures_own_or_64_or_what_is_asked(tmp_path: Path) -> None:
    folder = make(tmp_path / "mine")
    assert load(folder, image_size=32).image_shape == (3, 32, 32)
    assert load(folder, image_size=(24, 48)).image_shape == (3, 24, 48)
    Image.new("RGB", (100, 50)).save(folder / "red" / "other.png")
    assert load(folder).image_shape == (3, 64, 64)
    with pytest.raises(CapsNetError, match="An image size is one number or two"):
        load(folder, image_size=0)


def test_grey_pictures_make_a_grey_set_unless_colour_is_asked(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    make(folder, 4, mode="L")
    for path in folder.rglob("*.webp"):
        path.unlink()  # WebP has no grey
    assert load(folder).image_shape == (1, 40, 30)
    assert load(folder, channels=3).image_shape == (3, 40, 30)
    with pytest.raises(CapsNetError, match=r"1 channel .grey. or 3"):
        load(folder, channels=2)


def test_unreadable_files_are_listed_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = make(tmp_path / "mine")
    (folder / "red" / "broken.png").write_bytes(b"no picture")
    (folder / "blue" / "bomb.png").write_bytes(bomb(30_000, 30_000))
    half = (folder / "green" / "000.png").read_bytes()
    (folder / "green" / "half.png").write_bytes(half[: len(half) // 2])
    (folder / "green" / "notes.txt").write_text("not a picture, and not taken for one")
    with caplog.at_level(logging.WARNING, "capsnet.data"):
        data = load(folder)
    assert len(data.train.labels) + len(data.test.labels) == 30
    assert sorted(Path(path).name for path, _ in data.unreadable) == ["bomb.png", "broken.png", "half.png"]
    assert "3 files cannot be read and are left out" in caplog.text
    assert "broken.png is not a picture" in caplog.text


def test_a_class_without_readable_pictures_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make(tmp_path / "mine")
    (folder / "empty").mkdir()
    with pytest.raises(CapsNetError, match="empty is empty: it has no pictures"):
        load(folder)
    (folder / "empty" / "x.png").write_bytes(b"")
    with pytest.raises(CapsNetError, match="none of its 1 pictures can be read"):
        load(folder)


def test_links_that_loop_are_refused_or_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make(tmp_path / "mine")
    (folder / "red" / "inner").symlink_to(folder)
    assert len(load(folder).train.labels) == 24
    (folder / "red" / "self.png").symlink_to(folder / "red" / "self.png")
    assert len(load(folder).train.labels) == 24
    (folder / "loop").symlink_to(folder)
    with pytest.raises(CapsNetError, match="loop is a link to a folder that it lies in"):
        load(folder)


def test_odd_names_and_nested_folders_are_taken(tmp_path: Path) -> None:
    folder = tmp_path / "my pictures"
    names = ["a b", "schöne Grüße ☃", "semi;colon'quote\"", os.fsdecode(b"\xff\xfe bytes")]
    for name in names:
        (folder / name / "deeper").mkdir(parents=True)
        for n in range(3):
            Image.new("L", (32, 32), 50 * n).save(folder / name / "deeper" / f"{n} {name}.PNG")
    (folder / ".hidden").mkdir()
    (folder / "__MACOSX").mkdir()
    data = load(folder)
    assert len(data.class_names) == 4
    assert "schöne Grüße ☃" in data.class_names
    "".join(data.class_names).encode("utf-8")


def test_too_few_classes_pictures_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CapsNetError, match="There is no folder"):
        load_dataset(str(tmp_path / "nothing"))
    (tmp_path / "one" / "class").mkdir(parents=True)
    with pytest.raises(CapsNetError, match="at least two; it has 1"):
        load(tmp_path / "one")
    make(tmp_path / "single", 1)
    with pytest.raises(CapsNetError, match="only one picture"):
        load(tmp_path / "single")


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "mine")
    monkeypatch.setattr("capsnet.data.folder.MAX_BYTES", 1000)
    with pytest.raises(CapsNetError, match="give a smaller image size"):
        load(folder)


def test_a_folder_named_like_a_data_set_needs_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "mnist")
    make(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert load_dataset("mnist").name == "mnist"
    assert load_dataset("./mnist").num_classes == 3
    assert load_dataset("mine").num_classes == 3


def test_default_augmentation_gives_a_models_input(tmp_path: Path) -> None:
    data = load_folder(make(tmp_path / "mine"))
    name = next(iter(data.augmentations))
    batch = data.training_batch(data.train, name, torch.Generator().manual_seed(0))
    assert batch.images.shape == (24, 3, 40, 30)
    assert 0 <= float(batch.images.min()) <= float(batch.images.max()) <= 1
