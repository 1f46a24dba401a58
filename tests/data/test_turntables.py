"""ETH-80 and COIL-100 from files of their layout, made here: names, halves of the objects, masks, viewpoints, refusals."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from capsnet.cli import main
from capsnet.data import load_dataset
from capsnet.data.check import check_data
from capsnet.data.eth80 import CLASS_NAMES
from capsnet.data.hold_out import hold_out
from capsnet.data.viewpoints import ViewDataSet
from capsnet.errors import CapsNetError

OBJECTS = (1, 2, 10, 14)
VIEWPOINTS = [(0, 0), (45, 90), (66, 333), (90, 0), (90, 180), (90, 315)]  # degrees off the vertical, azimuth


@pytest.fixture(scope="module", autouse=True)
def _nowhere_else(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CAPSNET_DATA", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def eth80_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Red is ten times the class, green ten times the object, blue the polar angle; the mask is the left half."""
    data_dir = tmp_path_factory.mktemp("data of mine")
    mask = np.zeros((30, 30), dtype=bool)
    mask[:, :15] = True
    for label, name in enumerate(CLASS_NAMES):
        for number in OBJECTS:
            folder = data_dir / "eth80" / str(label + 1) / str(number)
            (folder / "maps").mkdir(parents=True)
            for polar, azimuth in VIEWPOINTS:
                colour = np.broadcast_to(np.uint8([10 * label, 10 * number, polar]), (30, 30, 3))
                stem = f"{name}{number}-{polar:03}-{azimuth:03}"
                Image.fromarray(colour).save(folder / f"{stem}.png")
                Image.fromarray(mask).save(folder / "maps" / f"{stem}-map.png")
    return data_dir


def load(name: str, data_dir: Path, **options: object) -> ViewDataSet:
    data = load_dataset(name, data_dir, **options)
    assert isinstance(data, ViewDataSet)
    assert data.train_views is not None
    assert data.test_views is not None
    return data


def test_names_say_class_object_and_viewpoint(eth80_dir: Path) -> None:
    data = load("eth80", eth80_dir, image_size=20)
    assert data.class_names == CLASS_NAMES
    assert data.image_shape == (3, 20, 20)
    for split, views in ((data.train, data.train_views), (data.test, data.test_views)):
        red, green, blue = split.images[:, :, 10, 10].long().unbind(dim=1)
        assert torch.equal(red, 10 * split.labels)
        assert torch.equal(green, 10 * (views.objects % 1000))
        assert torch.equal(blue, 90 - views.elevation)
        assert sorted(set(views.azimuth.tolist())) == [0, 90, 180, 315, 333]
    assert set(data.digests) == {"train", "test"}


def test_half_of_each_classs_objects_train_and_the_next_draw_swaps_them(eth80_dir: Path) -> None:
    draws = [load("eth80", eth80_dir, image_size=20, draw=draw) for draw in range(4)]
    sides = [[set(v.objects.tolist()) for v in (d.train_views, d.test_views)] for d in draws]
    for train, test in sides:
        assert not train & test
        assert sorted(thing // 1000 for thing in train) == sorted([*range(8), *range(8)])
        assert len(train | test) == 32
    assert sides[0] == sides[1][::-1]
    assert sides[2] == sides[3][::-1]
    assert sides[0] != sides[2]
    assert sides[0] == [set(v.objects.tolist()) for v in (draws[0].train_views, draws[0].test_views)]


def test_grey_and_masked(eth80_dir: Path) -> None:
    grey = load("eth80", eth80_dir, image_size=20, grey=True)
    assert grey.image_shape == (1, 20, 20)
    plain, masked = (load("eth80", eth80_dir, image_size=30, masked=m) for m in (False, True))
    assert torch.equal(masked.train.images[..., :14], plain.train.images[..., :14])
    assert not bool(masked.train.images[..., 16:].any())
    assert bool(plain.train.images[..., 16:].any())


def test_protocols_of_viewpoints(eth80_dir: Path) -> None:
    new = load("eth80", eth80_dir, image_size=20, views="azimuth")
    assert set(new.train_views.azimuth.tolist()) == {0, 315, 333}
    assert set(new.test_views.azimuth.tolist()) == {90, 180}
    assert not set(new.train_views.objects.tolist()) & set(new.test_views.objects.tolist())
    same = load("eth80", eth80_dir, image_size=20, views="elevation", objects="same")
    assert set(same.train_views.elevation.tolist()) == {0, 24}
    assert set(same.test_views.elevation.tolist()) == {45, 90}
    assert len(same.train_views.objects.unique()) == len(same.test_views.objects.unique()) == 32


def test_validation_is_one_object_of_each_class(eth80_dir: Path) -> None:
    data = load("eth80", eth80_dir, image_size=20)
    train, validation = hold_out(data, "objects", seed=2)
    assert validation is not None
    assert validation.labels.bincount().tolist() == train.labels.bincount().tolist() == [len(VIEWPOINTS)] * 8


def test_the_check_shows_the_objects_that_a_training_would_hold_out(eth80_dir: Path) -> None:
    findings = check_data("eth80", eth80_dir, image_size=20)
    splits = Counter((entry.split, entry.label) for entry in findings.entries)
    assert [splits["validation", name] for name in CLASS_NAMES] == [len(VIEWPOINTS)] * 8


def test_other_layouts_and_sizes_are_read_alike(eth80_dir: Path, tmp_path: Path) -> None:
    flat = tmp_path / "mine"
    for path in eth80_dir.rglob("*-map.png"):
        picture = path.parents[1] / path.name.replace("-map", "")
        place = flat / path.name.split("-")[0]
        place.mkdir(parents=True, exist_ok=True)
        Image.open(picture).resize((64, 64)).save(place / picture.name)
    here, there = load("eth80", eth80_dir, image_size=20), load("eth80", flat, image_size=20)
    assert torch.equal(here.train.images, there.train.images)
    assert here.digests == there.digests


def test_where_it_is_found_and_shown(eth80_dir: Path, tmp_path: Path, capsys) -> None:
    main(["data", "list", "--data-dir", str(eth80_dir), "--json"])
    assert str(eth80_dir / "eth80") in capsys.readouterr().out
    sheet = str(tmp_path / "sheet.png")
    options = ["views=azimuth", "grey=true", "image_size=24"]
    main(["data", "show", "eth80", "--data-dir", str(eth80_dir), "--out", sheet, "--data-options", *options])
    with Image.open(sheet) as drawn:
        assert drawn.width > 100


def changed(source: Path, tmp_path: Path) -> Path:
    shutil.copytree(source / "eth80", tmp_path / "eth80")
    return tmp_path


def test_missing_files_are_told(tmp_path: Path, eth80_dir: Path) -> None:
    with pytest.raises(CapsNetError, match=r"ETH-80 is not in .*: get its pictures from https://"):
        load("eth80", tmp_path)
    data_dir = changed(eth80_dir, tmp_path)
    (data_dir / "eth80" / "2" / "1" / "maps" / "car1-000-000-map.png").unlink()
    with pytest.raises(CapsNetError, match=r"no file .*car1-000-000-map\.png"):
        load("eth80", data_dir, masked=True)
    shutil.rmtree(data_dir / "eth80" / "2")
    with pytest.raises(CapsNetError, match="has no pictures of class 'car'"):
        load("eth80", data_dir)


def test_a_view_that_is_there_twice_is_refused(tmp_path: Path, eth80_dir: Path) -> None:
    data_dir = changed(eth80_dir, tmp_path)
    shutil.copy(data_dir / "eth80/1/1/apple1-000-000.png", data_dir / "eth80/1/2/apple1-000-000.png")
    with pytest.raises(CapsNetError, match="are the same view of the same object"):
        load("eth80", data_dir)


def test_a_mask_of_another_size_is_refused(tmp_path: Path, eth80_dir: Path) -> None:
    data_dir = changed(eth80_dir, tmp_path)
    Image.new("1", (20, 30)).save(data_dir / "eth80/1/1/maps/apple1-000-000-map.png")
    with pytest.raises(CapsNetError, match=r"apple1-000-000-map\.png is 20 x 30 pixels, its picture 30 x 30"):
        load("eth80", data_dir, masked=True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"grey": "yes"}, "The option grey of 'eth80' is true or false, not yes"),
        ({"masked": 1}, "The option masked of 'eth80' is true or false, not 1"),
        ({"draw": -1}, "The option draw of 'eth80' is at least 0, not -1"),
        ({"draw": True}, "The option draw of 'eth80' is a whole number, not True"),
        ({"image_size": "big"}, "The option image_size of 'eth80' is a whole number, not big"),
        ({"views": 3}, "The option views of 'eth80' is a word, not 3"),
        ({"image_size": 7}, "20 to 256 pixels, not 7"),
        ({"halves": 2}, "has no option 'halves'; its options: image_size, grey, masked"),
    ],
)
def test_wrong_options_are_one_sentence(eth80_dir: Path, options: dict, sentence: str) -> None:
    with pytest.raises(CapsNetError, match=sentence):
        load("eth80", eth80_dir, **options)


@pytest.fixture(scope="module")
def coil_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Red is the object's number, green a third of the azimuth."""
    folder = tmp_path_factory.mktemp("coil") / "coil-100"
    folder.mkdir()
    for number in (1, 2, 10):
        for azimuth in range(0, 360, 5):
            colour = np.broadcast_to(np.uint8([number, azimuth // 3, 0]), (20, 20, 3))
            Image.fromarray(colour).save(folder / f"obj{number}__{azimuth}.png")
    return folder.parent


def test_coil_trains_on_every_second_azimuth(coil_dir: Path) -> None:
    data = load("coil100", coil_dir, image_size=20)
    assert data.class_names == ("obj1", "obj2", "obj10")
    assert data.train_views.azimuth.unique().tolist() == list(range(0, 360, 10))
    assert data.test_views.azimuth.unique().tolist() == list(range(5, 360, 10))
    numbers = torch.tensor([1, 2, 10])[data.test.labels]
    assert torch.equal(data.test.images[:, 0, 9, 9].long(), numbers)
    assert torch.equal(data.test.images[:, 1, 9, 9].long(), data.test_views.azimuth // 3)


def test_coil_has_the_azimuth_protocols_and_no_objects_to_hold_out(coil_dir: Path) -> None:
    novel, familiar = (
        load("coil100", coil_dir, image_size=20, views=v) for v in ("azimuth", "azimuth_familiar")
    )
    assert torch.equal(novel.train.images, familiar.train.images)
    assert novel.train_views.azimuth.unique().tolist() == [*range(0, 60, 10), *range(300, 360, 10)]
    assert familiar.test_views.azimuth.unique().tolist() == [*range(5, 60, 10), *range(305, 360, 10)]
    assert novel.test_views.azimuth.unique().tolist() == list(range(65, 300, 10))
    with pytest.raises(CapsNetError, match="leaves no training images of class 'obj1'"):
        hold_out(novel, "objects")
    with pytest.raises(
        CapsNetError, match="no viewpoint protocol 'elevation' for 'coil100'; there are: azimuth"
    ):
        load("coil100", coil_dir, views="elevation")
    with pytest.raises(CapsNetError, match=r"COIL-100 is not in .*: get its pictures"):
        load("coil100", coil_dir / "elsewhere")
