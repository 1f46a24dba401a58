"""`capsnet train` as a user calls it, on a slice of MNIST."""

import json
import subprocess
import sys

import pytest

import capsnet
from capsnet.cli import main
from capsnet.evaluate.metrics import evaluate
from capsnet.train import finish

SHORT = ["--epochs", "1", "--limit", "60", "--threads", "1"]


def result_of(capfd, *words):
    main(["train", *map(str, words), "--json"])
    return json.loads(capfd.readouterr().out)


def test_the_folder_and_the_defaults_are_as_documented(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = result_of(capfd, "sliced_mnist", *SHORT, "--seed", "7")
    assert result["model"] == "efficient_capsnet"
    assert result["recipe"] == "quick"
    assert (tmp_path / "runs" / "sliced_mnist-efficient_capsnet-quick-s7" / "result.json").exists()


def test_a_run_is_run_again_from_its_configuration(capfd, tmp_path):
    first = result_of(
        capfd, "sliced_mnist", *SHORT, "--seed", "7", "--augment", "shift", "--out", tmp_path / "a"
    )
    config = tmp_path / "a" / "config.json"
    second = result_of(capfd, "--config", config, "--out", tmp_path / "b")
    assert second["config"] == first["config"]
    assert [row["loss"] for row in second["curve"]] == [row["loss"] for row in first["curve"]]
    changed = result_of(capfd, "--config", config, "--seed", "8", "--out", tmp_path / "c")
    assert changed["seed"] == 8
    assert changed["config"]["recipe"] == first["config"]["recipe"]


def test_training_prints_a_table_for_people(capfd, tmp_path):
    main(["train", "sliced_mnist", *SHORT, "--no-reconstruction", "--out", str(tmp_path / "run")])
    out, err = capfd.readouterr()
    assert "test error" in out
    assert "epoch 1/1" in err
    assert capsnet.load(tmp_path / "run").decoder is None


def test_bfloat16_trains(capfd, tmp_path):
    result = result_of(capfd, "sliced_mnist", *SHORT, "--precision", "bf16", "--out", tmp_path / "run")
    assert result["curve"][0]["loss"] < 2


def test_a_run_that_chooses_settings_leaves_the_test_set_unread(capfd, tmp_path, monkeypatch):
    looked_at = []
    monkeypatch.setattr(
        finish, "evaluate", lambda m, d, split, **k: looked_at.append(split) or evaluate(m, d, split, **k)
    )
    result = result_of(capfd, "sliced_mnist", *SHORT, "--no-test", "--out", tmp_path / "run")
    assert result["test_error_percent"] is None
    assert result["validation_error_percent"] is not None
    assert not (tmp_path / "run" / "predictions.safetensors").exists()
    assert len(looked_at) == 1, "the training images alone"
    main(["train", "sliced_mnist", *SHORT, "--no-test", "--out", str(tmp_path / "table")])
    assert "test error" not in capfd.readouterr().out


def test_a_learning_rate_takes_the_place_of_the_recipes(capfd, tmp_path):
    words = ["--learning-rate", "0.002", "--no-test", "--no-reconstruction"]
    result = result_of(capfd, "sliced_mnist", *SHORT, *words, "--out", tmp_path / "run")
    assert result["config"]["recipe"]["learning_rate"] == 0.002


def test_a_fold_is_held_out_whatever_validation_says_and_names_the_folder(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = result_of(
        capfd,
        "sliced_mnist",
        *SHORT,
        "--hold-out",
        "images",
        "--fold",
        "2/5",
        "--validation",
        "0",
        "--no-test",
    )
    assert result["validation_images"] == 400
    assert result["validation_error_percent"] is not None
    assert (tmp_path / "runs" / "sliced_mnist-efficient_capsnet-quick-fold2of5-s0" / "result.json").exists()
    weights = capsnet.load("runs/sliced_mnist-efficient_capsnet-quick-fold2of5-s0")
    assert weights.card.provenance["fold"] == "2/5"
    assert weights.card.provenance["hold_out"] == "images"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--fold", "6/5"], "A fold is PART/PARTS, such as 2/5 for the second of five parts; got '6/5'"),
        (["--fold", "0/5"], "got '0/5'"),
        (["--fold", "2"], "got '2'"),
        (["--fold", "a/b"], "got 'a/b'"),
        (
            ["--hold-out", "writer"],
            "no way to hold out images 'writer' for 'sliced_mnist'; did you mean 'writers'?",
        ),
        (["--hold-out", "objects"], "there are: images, stretches, writers"),
    ],
)
def test_wrong_ways_to_hold_out_are_one_sentence(capfd, tmp_path, words, sentence):
    with pytest.raises(SystemExit) as stop:
        main(["train", "sliced_mnist", *SHORT, *words, "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    err = " ".join(capfd.readouterr().err.split())
    assert sentence in err
    assert "Traceback" not in err


def test_epochs_that_are_asked_for_count_whatever_images_the_recipe_shows(capfd, tmp_path):
    result = result_of(
        capfd, "sliced_mnist", *SHORT, "--recipe", "budget", "--no-test", "--out", tmp_path / "run"
    )
    assert result["epochs"] == 1


def test_weights_of_another_model_are_refused_by_name(capfd, tmp_path):
    words = ["sliced_mnist", *SHORT, "--model", "hfc", "--init", "efficient_capsnet.mnist"]
    with pytest.raises(SystemExit) as stop:
        main(["train", *words, "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert "are of the model 'efficient_capsnet', not of 'hfc'" in " ".join(capfd.readouterr().err.split())


@pytest.mark.slow
def test_compiled_trains(tmp_path):
    # In a process of its own: the tests' checks of shapes and types cannot be compiled.
    words = ["train", "mnist", *SHORT, "--compile", "--out", str(tmp_path / "run"), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "capsnet", *words], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["curve"][0]["loss"] < 2


def test_a_place_that_cannot_be_written_is_one_sentence(capfd):
    with pytest.raises(SystemExit) as stop:
        main(["train", "sliced_mnist", *SHORT, "--out", "/proc/self/run"])
    err = capfd.readouterr().err
    assert stop.value.code == 2
    assert "/proc/self/run" in err
    assert "Traceback" not in err
