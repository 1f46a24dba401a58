"""Which images train and test when objects are seen from known viewpoints, on toyviews in small."""

from pathlib import Path

import pytest
import torch

from capsnet.cli import main
from capsnet.data import load_dataset
from capsnet.data.hold_out import hold_out
from capsnet.data.toyviews import Design, make
from capsnet.data.toyviews.design import factors
from capsnet.data.viewpoints import Views, is_familiar, norb_views
from capsnet.errors import CapsNetError
from capsnet.train.settings import make_config


def views_of(split: str) -> Views:
    labels, info = (torch.from_numpy(array).long() for array in factors(Design(), split, seed=0))
    return norb_views(labels, info)


def test_familiar_azimuths_are_the_six_about_the_front() -> None:
    views = views_of("train")
    familiar = is_familiar(views, "azimuth")
    assert views.azimuth[familiar].unique().tolist() == [0, 20, 40, 300, 320, 340]
    assert views.azimuth[~familiar].unique().tolist() == list(range(60, 300, 20))
    assert familiar.sum() == 24_300 // 3


def test_familiar_elevations_are_the_three_lowest() -> None:
    views = views_of("test")
    familiar = is_familiar(views, "elevation")
    assert views.elevation[familiar].unique().tolist() == [30, 35, 40]
    assert familiar.sum() == 24_300 // 3


def test_no_two_objects_share_a_number() -> None:
    train, test = (set(views_of(split).objects.tolist()) for split in ("train", "test"))
    assert len(train) == len(test) == 25
    assert not train & test


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    make(
        folder / "toyviews",
        workers=1,
        design=Design(elevations=(0, 5), azimuths=(0, 18), instances=2, size=64),
    )
    return folder


def test_toyviews_is_a_data_set_like_smallnorb(data_dir: Path) -> None:
    data = load_dataset("toyviews", data_dir)
    assert data.train.images.shape == (5 * 2 * 4 * 6, 2, 64, 64)
    assert data.image_shape == (2, 48, 48)
    assert data.preprocessing.apply(data.test.images[:2]).shape == (2, 2, 48, 48)
    assert set(data.digests) == {"train.npz", "test.npz"}


def test_protocols_share_their_training_images_and_split_the_test(data_dir: Path) -> None:
    novel = load_dataset("toyviews", data_dir, views="azimuth")
    familiar = load_dataset("toyviews", data_dir, views="azimuth_familiar")
    assert torch.equal(novel.train.images, familiar.train.images)
    assert novel.test_views.azimuth.unique().tolist() == [180]
    assert familiar.test_views.azimuth.unique().tolist() == [0]
    assert load_dataset("toyviews", data_dir, views="elevation").train_views.elevation.unique().tolist() == [
        30
    ]


def test_the_same_objects_are_tested_from_other_viewpoints(data_dir: Path) -> None:
    same = load_dataset("toyviews", data_dir, objects="same", views="elevation")
    assert len(same.train_views.objects.unique()) == 20
    assert torch.equal(same.train_views.objects.unique(), same.test_views.objects.unique())
    assert not set(same.train_views.elevation.tolist()) & set(same.test_views.elevation.tolist())
    assert len(same.train.labels) == len(same.test.labels) == 20 * 2 * 6


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"views": "azimut"}, "did you mean 'azimuth'"),
        ({"objects": "old"}, "no choice of objects 'old'; there are: new, same"),
        ({"objects": "same"}, "needs views=azimuth or views=elevation"),
        ({"objects": "same", "views": "azimuth_familiar"}, "would be tested on its training images"),
        ({"preprocessing": "papers"}, "did you mean 'paper'"),
    ],
)
def test_protocols_that_are_none_are_refused(data_dir: Path, options: dict, sentence: str) -> None:
    with pytest.raises(CapsNetError, match=sentence):
        load_dataset("toyviews", data_dir, **options)


def test_a_set_without_such_viewpoints_says_so(tmp_path: Path) -> None:
    make(tmp_path / "toyviews", workers=1, design=Design((0,), (18,), instances=1, size=24))
    with pytest.raises(CapsNetError, match="has no training images from these viewpoints"):
        load_dataset("toyviews", tmp_path, views="azimuth")


def test_validation_holds_out_whole_objects_of_each_class(data_dir: Path) -> None:
    data = load_dataset("toyviews", data_dir, views="azimuth")
    for asked in ({"seed": 1}, {"fold": "2/2"}):
        train, validation = hold_out(data, "objects", **asked)
        assert validation is not None
        assert train.labels.bincount().tolist() == validation.labels.bincount().tolist() == [2 * 6] * 5


@pytest.mark.parametrize(
    ("dataset", "way"),
    [
        ("toyviews", "objects"),
        ("smallnorb", "objects"),
        ("eth80", "objects"),
        ("mnist", "images"),
        ("a/b", "images"),
    ],
)
def test_training_holds_out_objects_where_viewpoints_are_known(dataset: str, way: str) -> None:
    assert make_config(dataset).hold_out == way


def test_without_the_files_the_error_says_what_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CAPSNET_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(CapsNetError, match="run `capsnet data make toyviews`"):
        load_dataset("toyviews", tmp_path)


def test_only_generated_sets_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["data", "make", "mnist"])
    assert "toyviews is" in capsys.readouterr().err
