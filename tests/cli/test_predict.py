"""`capsnet predict` with any number of pictures: folders, patterns, bad files, tables, and batches that change nothing."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from capsnet.cli import main
from capsnet.errors import CapsNetError
from capsnet.predict import BATCH, open_predictor, predict_all, predict_files

SEVEN = Path("docs/seven.png")
WEIGHTS = "efficient_capsnet.mnist"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two good pictures, one deeper than the other, a broken one, and a file that is none."""
    place = tmp_path / "some pictures"
    (place / "deeper").mkdir(parents=True)
    shutil.copy(SEVEN, place / "deeper" / "séven.png")
    shutil.copy(SEVEN, place / "a.png")
    (place / "b.png").write_bytes(b"")
    (place / "notes.txt").write_text("no picture")
    return place


def run(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    capfd.readouterr()
    code = 0
    try:
        main(["predict", *map(str, words)])
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capfd.readouterr()
    assert "Traceback" not in err
    return code, out, " ".join(err.split())


def test_folders_and_patterns_are_searched_and_bad_files_do_not_stop_the_others(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for places in ([folder], [folder / "*.png", folder / "deeper" / "*"], [folder / "**" / "*.png"]):
        code, out, err = run(capfd, WEIGHTS, *places, "--json")
        assert code == 1
        told = json.loads(out)
        assert sorted(Path(p["file"]).name for p in told) == ["a.png", "séven.png"]
        assert {p["class"] for p in told} == {"7"}
        assert "b.png is not a picture (the file is empty)" in err
        assert "1 of 3 pictures cannot be read." in err
    code, out, err = run(capfd, WEIGHTS, folder / "a.png", "--json")
    assert (code, err) == (0, "")
    assert set(json.loads(out)[0]) == {"file", "class", "score", "scores", "likely", "reason"}


def test_a_pattern_in_a_folder_with_brackets_finds_its_pictures(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my photos [new]"
    folder.mkdir()
    shutil.copy(SEVEN, folder / "seven.png")
    monkeypatch.chdir(tmp_path)
    for place in (folder / "s*", Path(folder.name) / "*.png"):
        code, out, err = run(capfd, WEIGHTS, place, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)[0]["file"] == str(place.parent / "seven.png")


def test_an_unlikely_picture_is_said_to_score_low_or_to_be_blank(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("L", (28, 28)).save(tmp_path / "blank.png")
    assert "Probably none of the classes: it is blank." in run(capfd, WEIGHTS, tmp_path / "blank.png")[1]
    cross = Image.new("L", (60, 60))
    ImageDraw.Draw(cross).line([(5, 5), (55, 55)], fill=255, width=8)
    ImageDraw.Draw(cross).line([(5, 55), (55, 5)], fill=255, width=8)
    cross.save(tmp_path / "cross.png")
    said = run(capfd, WEIGHTS, tmp_path / "cross.png")[1]
    assert "Probably none of the classes: no class scores as high as its own pictures do." in said
    predictor = open_predictor(WEIGHTS)
    monkeypatch.setattr("capsnet.predict.open_predictor", lambda *_: predictor._replace(detector=None))
    monkeypatch.setattr("capsnet.predict.LIKELY", 1.1)
    said = run(capfd, WEIGHTS, SEVEN)[1]
    assert "Probably none of the classes: no class scores 1.1 or more." in said


def test_nothing_that_can_be_read_is_exit_code_2(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "nothing").mkdir()
    for place, sentence in ((folder / "nothing", "is a folder"), (folder / "*.jpg", "There is no file")):
        out = folder / "out.csv"
        code, _, err = run(capfd, WEIGHTS, place, "--out", out)
        assert (code, out.exists()) == (2, False)
        assert sentence in err


def test_rows_are_written_as_csv_for_every_picture(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, WEIGHTS, folder, "--out", folder / "out.csv")[0] == 1
    rows = list(csv.DictReader((folder / "out.csv").open(encoding="utf-8")))
    assert [Path(row["file"]).name for row in rows] == ["a.png", "b.png", "séven.png"]
    assert [row["class"] for row in rows] == ["7", "", "7"]
    assert "the file is empty" in rows[1]["error"]
    assert float(rows[0]["score 7"]) == float(rows[0]["score"]) > 0.9
    assert run(capfd, WEIGHTS, folder, "--out", folder / "top.csv", "--top-k", 3)[0] == 1
    rows = list(csv.DictReader((folder / "top.csv").open(encoding="utf-8")))
    assert list(rows[0]) == [
        "file",
        "class",
        "score",
        "likely",
        "reason",
        "error",
        "class 2",
        "score 2",
        "class 3",
        "score 3",
    ]
    assert float(rows[0]["score"]) >= float(rows[0]["score 2"]) >= float(rows[0]["score 3"])


def test_rows_are_written_as_json_lines(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, WEIGHTS, folder, "--out", folder / "out.jsonl", "--top-k", 2)[0] == 1
    good, bad, other = map(json.loads, (folder / "out.jsonl").read_text("utf-8").splitlines())
    assert (good["class"], len(good["scores"]), other["class"]) == ("7", 2, "7")
    assert list(bad) == ["file", "error"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--out", "x.txt"], "ending in .csv or .jsonl, not 'x.txt'"),
        (["--top-k", "11"], "--top-k is 1 to 10, the number of classes; got 11."),
        (["--device", "tpu9"], "The device 'tpu9' is not usable here"),
    ],
)
def test_wrong_options_get_one_sentence(
    words: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capfd, WEIGHTS, SEVEN, *words)
    assert (code, out) == (2, "")
    assert sentence in err


def test_batches_give_what_single_pictures_give_in_order(tmp_path: Path) -> None:
    files = []
    for n in range(BATCH + 5):
        pixels = np.full((60, 60), 255, np.uint8)
        pixels[10:50, 10 + n % 30 : 14 + n % 30] = 0
        pixels[10 + n % 7, 10:40] = 0
        files.append(tmp_path / f"{n:03}.png")
        Image.fromarray(pixels).save(files[-1])
    together = list(predict_all(WEIGHTS, [tmp_path]))
    assert [p["file"] for p in together] == [str(file) for file in files]
    for n in (0, BATCH - 1, BATCH, BATCH + 4):
        (alone,) = predict_files(WEIGHTS, [files[n]])
        assert together[n]["class"] == alone["class"]
        for name, score in alone["scores"].items():
            assert together[n]["scores"][name] == pytest.approx(score, abs=1e-5)


def test_files_are_read_as_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    predictor = open_predictor(WEIGHTS)

    def counting(file: Path) -> np.ndarray:
        read.append(file)
        return predictor.read(SEVEN)

    class Counting:
        class_names, describe, read = (
            predictor.class_names,
            staticmethod(predictor.describe),
            staticmethod(counting),
        )

    monkeypatch.setattr("capsnet.predict.open_predictor", lambda *_: Counting)
    monkeypatch.setattr("capsnet.predict.read_header", lambda _: type("Header", (), {"memory": 0}))
    some = predict_all(WEIGHTS, [Path(f"{n}.png") for n in range(5000)])
    next(some)
    assert BATCH <= len(read) < 2000
    some.close()


def test_one_bad_file_is_an_error_in_python(folder: Path) -> None:
    with pytest.raises(CapsNetError, match="the file is empty"):
        predict_files(WEIGHTS, [folder / "a.png", folder / "b.png"])
