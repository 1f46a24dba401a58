"""A run keeps which file was in which split, and its weights are tested on those files whatever becomes of the folder."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from capsnet.cli import main
from capsnet.data import load_dataset
from capsnet.data.manifest import FILE, Changes, Division, find_division, load_divided, read_manifest
from capsnet.errors import CapsNetError
from capsnet.opening import open_weights


def noise(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (24, 24), dtype=np.uint8)).save(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `pictures` and `run`, trained for an epoch on most of them."""
    place = tmp_path_factory.mktemp("manifest")
    for label in range(2):
        for n in range(30):
            noise(place / "pictures" / "ab"[label] / f"{n} ☃.png", 100 * label + n)
    words = ["--epochs", "1", "--limit", "40", "--threads", "1", "--no-reconstruction"]
    main(["train", str(place / "pictures"), *words, "--out", str(place / "run")])
    return place


@pytest.fixture
def place(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    # Where the run says that its pictures are.
    for card in tmp_path.glob("run/*/config.json"):
        card.write_text(card.read_text().replace(str(trained), str(tmp_path)))
    return tmp_path


def test_the_manifest_tells_every_file_its_split_and_the_digest_of_its_bytes(place: Path) -> None:
    entries = read_manifest(place / "run" / FILE).entries
    data = load_dataset(str(place / "pictures"))
    counts = {
        split: sum(e.split == split for e in entries) for split in ("train", "validation", "test", "unused")
    }
    result = json.loads((place / "run" / "result.json").read_text())
    assert counts["train"] == result["train_images"]
    assert counts["train"] + counts["validation"] == 40
    assert counts["test"] == len(data.test.labels) == 20 - counts["unused"]
    assert sorted(e.file for e in entries) == sorted(f"{c}/{n} ☃.png" for c in "ab" for n in range(30))
    assert [e.digest for e in entries] == [e.digest for e in data.manifest]
    assert all(len(e.digest) == 64 and e.label == e.file[0] for e in entries)


@pytest.mark.parametrize("part", ["", "best", "last"])
def test_added_files_change_nothing_and_are_told(
    place: Path, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = open_weights(place / "run" / part).dataset
    assert before.changes == Changes((), (), ())
    noise(place / "pictures" / "a" / "new.png", 999)
    (place / "pictures" / "new class").mkdir()
    with caplog.at_level(logging.WARNING, "capsnet"):
        opened = open_weights(place / "run" / part)
        after = opened.dataset
    assert torch.equal(before.test.images, after.test.images)
    assert torch.equal(before.train.images, after.train.images)
    assert opened.split_training()[1] is not None
    assert "1 added since (a/new.png)" in caplog.text
    assert len(caplog.records) == 1


def test_altered_and_missing_files_are_left_out_and_told(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tested = [e.file for e in read_manifest(place / "run" / FILE).entries if e.split == "test"]
    noise(place / "pictures" / tested[0], 999)
    (place / "pictures" / tested[-1]).unlink()
    with caplog.at_level(logging.WARNING, "capsnet"):
        data = open_weights(place / "run").dataset
    assert len(data.test.labels) == len(tested) - 2
    assert f"1 missing ({tested[-1]}); 1 altered ({tested[0]})" in caplog.text


def test_eval_after_the_folder_grew_gives_the_runs_own_error(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for n in range(20):
        noise(place / "pictures" / "b" / f"new {n}.png", 5000 + n)
    capfd.readouterr()
    main(["eval", str(place / "run"), "--json"])
    told = json.loads(capfd.readouterr().out)
    result = json.loads((place / "run" / "result.json").read_text())
    assert (told["errors"], told["images"]) == (result["test_errors"], result["test_images"])


def resume(place: Path) -> None:
    config = str(place / "run" / "config.json")
    (place / "run" / "result.json").unlink()
    words = ["--config", config, "--resume", "--threads", "1"]
    main(["train", str(place / "pictures"), *words, "--out", str(place / "run")])


def test_a_run_is_not_resumed_with_altered_pictures(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = place / "run" / "config.json"
    values = json.loads(config.read_text())
    config.write_text(json.dumps({**values, "dataset": str(place / "pictures")}))
    noise(place / "pictures" / "a" / "new.png", 999)
    resume(place)
    assert (place / "run" / "result.json").exists()
    noise(place / "pictures" / "a" / "3 ☃.png", 999)
    with pytest.raises(SystemExit) as stop:
        resume(place)
    assert stop.value.code == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "cannot continue, since its pictures" in said
    assert "1 altered (a/3 ☃.png)" in said


def test_weights_from_before_there_were_manifests_keep_their_split(place: Path) -> None:
    by_order = load_dataset(str(place / "pictures"), split="order")
    by_content = load_dataset(str(place / "pictures"))
    assert not torch.equal(by_order.test.images, by_content.test.images)
    (place / "run" / FILE).unlink()
    assert torch.equal(open_weights(place / "run").dataset.test.images, by_content.test.images)
    for card in place.glob("run/*/config.json"):
        card.write_text(card.read_text().replace('"division": "content"', '"x": 0'))
    assert torch.equal(open_weights(place / "run").dataset.test.images, by_order.test.images)
    assert find_division(place / "run", {}) == Division(None, "order")


def test_a_damaged_manifest_is_named(place: Path) -> None:
    for content in (b"", b"file,label\n", b"file,class,group,split,digest\na,b\n"):
        (place / "run" / FILE).write_bytes(content)
        with pytest.raises(CapsNetError, match=r"manifest\.csv is not a run's manifest"):
            read_manifest(place / "run" / FILE)


def test_named_data_sets_have_no_manifest() -> None:
    assert load_divided("mnist", Division(None, "order"), "w").manifest == ()
