"""`capsnet data`: the list, fetching what is here, contact sheets, and bad input."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tyro.conf import DisallowNone, FlagCreatePairsOff, PositionalMetavarFromFieldName

from capsnet.cli.data import build_app
from capsnet.data.sheet import contact_sheet
from capsnet.errors import CapsNetError


def run(*arguments: str) -> None:
    build_app().cli(
        prog="capsnet data",
        args=arguments,
        config=(DisallowNone, FlagCreatePairsOff, PositionalMetavarFromFieldName),
    )


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data but what is bundled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CAPSNET_DATA", raising=False)
    return tmp_path


def test_list_tells_of_every_data_set(capsys: pytest.CaptureFixture[str], nowhere: Path) -> None:
    run("list", "--json")
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["mnist"]["image_shape"] == [1, 28, 28]
    assert rows["mnist"]["num_classes"] == 10
    assert rows["mnist"]["licence"] == "CC BY-SA 3.0"
    assert Path(rows["mnist"]["found"]).is_dir()
    assert rows["fashion_mnist"]["fetchable"]
    run("list")
    text = " ".join(capsys.readouterr().out.split())
    assert "fashion_mnist" in text
    assert "package" in text


def test_fetch_of_what_is_here_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    run("fetch", "mnist")
    assert "mnist is in" in capsys.readouterr().out


def test_show_draws_a_row_of_each_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "sheet.png"
    run("show", "mnist", "--out", str(out), "--per-class", "4", "--split", "test")
    with Image.open(out) as sheet:
        assert sheet.format == "PNG"
        assert sheet.size == (4 * 90 + 6, 10 * 106 + 6)
    run("show", "mnist", "--out", str(tmp_path / "varied.png"), "--augment", "byerly", "--per-class", "4")
    assert (tmp_path / "varied.png").read_bytes() != out.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch", "minst"], "did you mean 'mnist'"),
        (["show", "minst", "--out", "x.png"], "did you mean 'mnist'"),
        (["show", "mnist", "--out", "x.png", "--per-class", "0"], "1 to 100 images"),
        (
            ["show", "mnist", "--out", "x.png", "--augment", "biery"],
            "There is no augmentation 'biery' for 'mnist'",
        ),
        (["show", "mnist", "--out", "no/such/folder/x.png"], "cannot be written: No such file"),
    ],
)
def test_bad_input_gets_one_sentence(arguments: list[str], message: str) -> None:
    with pytest.raises(CapsNetError, match=message):
        run(*arguments)


def test_list_does_not_import_torch() -> None:
    code = (
        "import sys; from capsnet.cli.data import list_data; list_data(json=True);"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_a_sheet_shows_grey_stereo_and_colour(channels: int) -> None:
    images = np.linspace(-2, 2, 7 * channels * 30 * 40, dtype=np.float32).reshape(7, channels, 30, 40)
    sheet = contact_sheet(images, ["a very long name that must be cut ☃"] * 7, columns=3)
    width = 80 if channels == 2 else 40
    assert sheet.size == (3 * (width * 3 + 6) + 6, 3 * (90 + 16 + 6) + 6)


def test_a_sheet_of_one_flat_image_is_drawn() -> None:
    assert contact_sheet(np.zeros((1, 1, 28, 28), np.float32), ["zero"]).size[1] == 112
