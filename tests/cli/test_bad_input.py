"""What a user can get wrong ends in one clear sentence and exit code 2, never in a traceback."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import torch
from PIL import Image

import capsnet
from capsnet.card import Card
from capsnet.cli import main
from capsnet.data.mnist import PREPROCESSING


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights") / "w"
    torch.manual_seed(0)
    card = Card(tuple("0123456789"), PREPROCESSING.to_dict(), {"dataset": "mnist"}, {})
    capsnet.save(capsnet.create_model("efficient_capsnet"), folder, card=card)
    return folder


@pytest.fixture
def run(capfd):
    def call(*words):
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        out, err = capfd.readouterr()
        assert stop.value.code == 2, err
        assert "Traceback" not in err
        assert out == ""
        return re.sub(r"\s+", " ", err)

    return call


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "mnits"], "There is no data set 'mnits'; did you mean 'mnist'?"),
        (
            ["train", "mnist", "--model", "eficient_capsnet"],
            "There is no model 'eficient_capsnet'; did you mean 'efficient_capsnet'?",
        ),
        (["train", "mnist", "--recipe", "qick"], "There is no recipe 'qick'; did you mean 'quick'?"),
        (["train", "mnist", "--augment", "byerli"], "did you mean 'byerly'?"),
        (["train", "mnist", "--epochs", "0"], "--epochs is at least 1; got 0."),
        (["train", "mnist", "--seed", "-1"], "--seed is a whole number from 0; got -1."),
        (["train", "mnist", "--limit", "0"], "--limit is at least 1"),
        (["train", "mnist", "--validation", "-5"], "--validation is at least 0"),
        (["train", "mnist", "--threads", "0"], "--threads is at least 1"),
        (
            ["train", "mnist", "--device", "tpu9"],
            "The device 'tpu9' is not usable here: --device is auto, cpu, cuda or mps.",
        ),
        (["train", "mnist", "--init", "nothing_here"], "nothing_here"),
        (["train", "mnist", "--config", "missing.json"], "missing.json"),
        (["train"], "Name a data set to train on"),
        (["eval", "no_such_weights"], "no_such_weights"),
        (["train", "mnist", "--resume", "--out", "no-run-here"], "There is no run at no-run-here"),
    ],
)
def test_a_wrong_word_is_named_with_what_to_do(run, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    assert sentence in run(*words)
    assert not any(tmp_path.iterdir()), "nothing is left behind"


def test_a_model_that_does_not_fit_the_data_set_says_so(run, tmp_path):
    message = run("train", "mnist", "--model", "efficient_capsnet_smallnorb", "--out", tmp_path / "run")
    assert "does not fit data set 'mnist'" in message


@pytest.mark.parametrize("name", ["notes.txt", "sub/seven.png"])
def test_a_single_file_is_not_taken_for_a_data_set(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / name).write_text("no pictures")
    for command in (["train"], ["data", "check"]):
        assert f"{name} is a single file; your own pictures are a folder" in run(*command, name)


def test_weights_that_do_not_fit_the_data_set_are_named(run, tmp_path):
    capsnet.save(capsnet.create_model("efficient_capsnet", (1, 28, 28), 5), tmp_path / "five")
    assert "of 5 classes, but 'mnist' has 1x28x28 images of 10 classes" in run(
        "eval", tmp_path / "five", "mnist"
    )


@pytest.mark.parametrize("damage", [b"", b"not weights", None])
def test_corrupt_weights_are_named(run, weights, tmp_path, damage):
    folder = tmp_path / "w"
    shutil.copytree(weights, folder)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000] if damage is None else damage)
    assert "model.safetensors" in run("eval", folder, "mnist")


def test_a_text_file_is_not_a_picture(run, weights, tmp_path):
    (tmp_path / "note.png").write_text("hello")
    assert "note.png is not a picture" in run("predict", weights, tmp_path / "note.png")


def test_predict_needs_a_picture(run, weights):
    assert "at least one picture" in run("predict", weights)


def test_a_configuration_that_is_not_one_is_named(run, tmp_path):
    (tmp_path / "c.json").write_text(json.dumps({"dataset": "mnist"}))
    assert "not a run's configuration" in run("train", "--config", tmp_path / "c.json")


def test_a_full_disk_ends_training_with_one_sentence_and_the_previous_state_survives(tmp_path):
    folder = tmp_path / "run"
    # A limit on file sizes fails writes as a full disk does, without one; states of this network are larger than 15 MB.
    code = (
        "import resource, signal, sys\nfrom capsnet.cli import main\nfrom capsnet.train import loop\n"
        "before = loop.save_state\n"
        "def limited(*arguments):\n"
        "    before(*arguments)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, 10_000_000))\n"
        "loop.save_state = limited\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"main(['train', 'mnist', '--limit', '200', '--epochs', '1', '--save-every', '0', '--out', {str(folder)!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "state.safetensors" in done.stderr
    from safetensors.torch import load_file

    assert load_file(folder / "state" / "state.safetensors")


def test_an_altered_data_file_is_named(tmp_path):
    source = capsnet.__path__[0]
    shutil.copytree(source, tmp_path / "capsnet", ignore=shutil.ignore_patterns("__pycache__", "weights"))
    file = tmp_path / "capsnet" / "data" / "bundled" / "mnist" / "t10k-labels-idx1-ubyte.gz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "capsnet", "train", "mnist", "--limit", "50"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "t10k-labels-idx1-ubyte" in done.stderr
    assert "Traceback" not in done.stderr


def test_predict_says_when_every_capsule_is_short(weights, tmp_path, capfd):
    picture = tmp_path / "grey.png"
    Image.new("L", (64, 64), 128).save(picture)
    main(["predict", str(weights), str(picture), "--json"])
    (prediction,) = json.loads(capfd.readouterr().out)
    assert prediction["likely"] == (prediction["score"] >= 0.5)
    assert set(prediction["scores"]) == set("0123456789")
    assert prediction["class"] in prediction["scores"]


def test_options_are_pairs_of_key_and_value(run):
    assert "key=value, not 'routing'" in run("train", "mnist", "--model-options", "routing")
    assert "has no option 'shape'" in run("train", "mnist", "--data-options", "shape=3")
    assert "did you mean 'dynamic'" in run("train", "mnist", "--model-options", "routing=dynamics")
