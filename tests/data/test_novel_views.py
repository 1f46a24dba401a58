"""toyviews through the data registry, and Hinton's novel-viewpoint protocols on it."""

from pathlib import Path

import pytest
import torch

from capsnet.cli import main
from capsnet.data import load_dataset
from capsnet.data.toyviews import Design, make
from capsnet.data.toyviews.design import factors
from capsnet.data.viewpoints import familiar_views
from capsnet.errors import CapsNetError


def info_of(split: str) -> torch.Tensor:
    return torch.from_numpy(factors(Design(), split, seed=0)[1]).long()


def test_azimuth_protocol_trains_on_six_azimuths_about_the_front() -> None:
    info = info_of("train")
    familiar = familiar_views(info, "azimuth")
    assert (info[familiar, 2] * 10).unique().tolist() == [0, 20, 40, 300, 320, 340]
    assert (info[~familiar, 2] * 10).unique().tolist() == list(range(60, 300, 20))
    assert familiar.sum() == 24_300 // 3


def test_elevation_protocol_trains_on_the_three_lowest() -> None:
    info = info_of("test")
    familiar = familiar_views(info, "elevation")
    assert info[familiar, 1].unique().tolist() == [0, 1, 2]
    assert familiar.sum() == 24_300 // 3


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    make(
        folder / "toyviews",
        workers=1,
        design=Design(elevations=(0, 5), azimuths=(0, 18), instances=1, size=64),
    )
    return folder


def test_toyviews_is_a_data_set_like_smallnorb(data_dir: Path) -> None:
    data = load_dataset("toyviews", data_dir)
    assert data.train.images.shape == (5 * 4 * 6, 2, 64, 64)
    assert data.image_shape == (2, 48, 48)
    assert data.preprocessing.apply(data.test.images[:2]).shape == (2, 2, 48, 48)
    assert set(data.digests) == {"train.npz", "test.npz"}


def test_protocols_share_their_training_images_and_split_the_test(data_dir: Path) -> None:
    novel = load_dataset("toyviews", data_dir, views="azimuth")
    familiar = load_dataset("toyviews", data_dir, views="azimuth_familiar")
    assert torch.equal(novel.train.images, familiar.train.images)
    assert novel.test_info[:, 2].unique().tolist() == [18]
    assert familiar.test_info[:, 2].unique().tolist() == [0]
    assert load_dataset("toyviews", data_dir, views="elevation").train_info[:, 1].unique().tolist() == [0]
    with pytest.raises(CapsNetError, match="did you mean 'azimuth'"):
        load_dataset("toyviews", data_dir, views="azimut")


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
