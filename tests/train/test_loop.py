"""The loop on small subsets of real MNIST."""

import csv
import dataclasses
import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import capsnet
from capsnet.config import Config, Recipe
from capsnet.data import load_dataset
from capsnet.errors import CapsNetError
from capsnet.evaluate.metrics import evaluate
from capsnet.train.callbacks import Callback
from capsnet.train.loop import train
from capsnet.train.step import training_loss

CONFTEST = str(Path(__file__).with_name("conftest.py"))
RECIPE = Recipe(name="tiny", epochs=2, batch_size=16, learning_rate=1e-3, average=0.9)
CONFIG = Config("sliced_mnist", "efficient_capsnet", RECIPE, seed=3, limit=80, validation=16, threads=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return folder, train(CONFIG, folder)


def tensors(folder):
    return {k: v.clone() for k, v in capsnet.load(folder).state_dict().items()}


def assert_same_bits(a, b):
    assert a.keys() == b.keys()
    for key in a:
        assert torch.equal(a[key], b[key]), key


def test_a_run_folder_holds_what_is_promised(run):
    folder, result = run
    assert json.loads((folder / "result.json").read_text()) == result
    assert Config.from_dict(json.loads((folder / "config.json").read_text())) == CONFIG
    rows = list(csv.DictReader((folder / "metrics.csv").open()))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    for key in (
        "model",
        "dataset",
        "recipe",
        "seed",
        "epochs",
        "seconds",
        "images_per_second",
        "commit",
        "versions",
        "data",
    ):
        assert key in result
    assert {"train_error_percent", "validation_error_percent", "test_error_percent"} <= result.keys()
    assert len(result["curve"]) == 2


def test_the_kept_weights_are_the_best_on_validation_and_give_the_recorded_test_error(run):
    folder, result = run
    best = min(result["curve"], key=lambda row: (row["validation_error_percent"], row["validation_loss"]))
    assert result["selected"] == {"weights": "best", "epoch": best["epoch"]}
    dataset = load_dataset("sliced_mnist")
    model = capsnet.load(folder)
    assert evaluate(model, dataset, dataset.test).error_percent == result["test_error_percent"]
    assert model.card.score["test_error_percent"] == result["test_error_percent"]
    assert model.card.class_names == tuple("0123456789")


def test_the_same_seed_gives_the_same_bits(run, tmp_path):
    folder, result = run
    again = train(CONFIG, tmp_path / "again")
    assert_same_bits(tensors(folder / "last"), tensors(tmp_path / "again" / "last"))
    assert again["test_error_percent"] == result["test_error_percent"]


def test_another_seed_gives_other_weights(run, tmp_path):
    folder, _ = run
    config = dataclasses.replace(CONFIG, seed=4, recipe=dataclasses.replace(RECIPE, epochs=1))
    train(config, tmp_path / "other")
    key = "encoder.blocks.0.conv.weight"
    assert not torch.equal(tensors(folder / "last")[key], tensors(tmp_path / "other" / "last")[key])


class StopAt(Callback):
    """Breaks training off, as a power cut would, right after a step."""

    def __init__(self, step):
        self.left = step

    def on_step(self, run):
        self.left -= 1
        if self.left == 0:
            raise ConnectionAbortedError


@pytest.mark.parametrize("steps", [1, 4, 6])
def test_a_run_broken_off_anywhere_and_resumed_ends_with_the_same_bits(run, tmp_path, steps):
    folder, result = run
    with pytest.raises(ConnectionAbortedError):
        train(CONFIG, tmp_path / "run", callbacks=[StopAt(steps)], save_every=0)
    resumed = train(CONFIG, tmp_path / "run", resume=True)
    assert_same_bits(tensors(folder / "last"), tensors(tmp_path / "run" / "last"))
    assert_same_bits(tensors(folder / "best"), tensors(tmp_path / "run" / "best"))
    for row, expected in zip(resumed["curve"], result["curve"], strict=True):
        assert row["loss"] == expected["loss"]
        assert row["validation_loss"] == expected["validation_loss"]


def test_so_does_one_in_bfloat16_that_learns_from_the_hardest_images(tmp_path):
    recipe = dataclasses.replace(RECIPE, epochs=1, batch_size=32, learn_from=0.3, augmentation="handwriting")
    config = Config(
        "mnist",
        "efficient_capsnet",
        recipe,
        limit=650,
        validation=10,
        threads=1,
        precision="bf16",
        test=False,
    )
    whole = train(config, tmp_path / "whole")
    with pytest.raises(ConnectionAbortedError):
        train(config, tmp_path / "broken", callbacks=[StopAt(9)], save_every=0)
    assert train(config, tmp_path / "broken", resume=True)["curve"][0]["loss"] == whole["curve"][0]["loss"]
    assert_same_bits(tensors(tmp_path / "whole" / "last"), tensors(tmp_path / "broken" / "last"))
    every = train(
        dataclasses.replace(config, recipe=dataclasses.replace(recipe, learn_from=1.0)), tmp_path / "all"
    )
    assert every["curve"][0]["loss"] != whole["curve"][0]["loss"]


def test_so_does_one_on_pairs_whose_kernels_follow_muon(tmp_path):
    recipe = dataclasses.replace(RECIPE, epochs=1, images=640, batch_size=32, optimizer="muon")
    config = Config(
        "multimnist", "efficient_capsnet_multimnist", recipe, limit=650, validation=10, threads=1, test=False
    )
    whole = train(config, tmp_path / "whole")
    with pytest.raises(ConnectionAbortedError):
        train(config, tmp_path / "broken", callbacks=[StopAt(9)], save_every=0)
    assert train(config, tmp_path / "broken", resume=True)["curve"][0]["loss"] == whole["curve"][0]["loss"]
    assert_same_bits(tensors(tmp_path / "whole" / "last"), tensors(tmp_path / "broken" / "last"))


def test_a_finished_run_gives_its_result_again_without_training(run):
    folder, result = run
    assert train(CONFIG, folder, resume=True, callbacks=[StopAt(1)]) == result


def test_an_existing_run_is_never_overwritten(run):
    folder, _ = run
    before = tensors(folder / "last")
    with pytest.raises(CapsNetError, match="exists already; continue that run with --resume"):
        train(CONFIG, folder)
    assert_same_bits(before, tensors(folder / "last"))


def test_resuming_with_other_settings_names_them(run):
    folder, _ = run
    other = dataclasses.replace(CONFIG, seed=9, recipe=dataclasses.replace(RECIPE, learning_rate=0.5))
    with pytest.raises(CapsNetError, match=r"other settings \(seed, learning_rate\)"):
        train(other, folder, resume=True)


def test_resuming_nothing_is_an_error_and_a_folder_without_a_state_starts_over(tmp_path):
    with pytest.raises(CapsNetError, match="There is no run at"):
        train(CONFIG, tmp_path / "nothing", resume=True)
    (tmp_path / "empty").mkdir()
    config = dataclasses.replace(CONFIG, recipe=dataclasses.replace(RECIPE, epochs=1))
    assert train(config, tmp_path / "empty", resume=True)["epochs"] == 1


def test_a_corrupt_state_is_a_clear_error(tmp_path):
    with pytest.raises(ConnectionAbortedError):
        train(CONFIG, tmp_path / "run", callbacks=[StopAt(2)], save_every=0)
    state = tmp_path / "run" / "state" / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-1000])
    with pytest.raises(CapsNetError, match=r"state.safetensors is damaged"):
        train(CONFIG, tmp_path / "run", resume=True)


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_last_good_state(tmp_path):
    wild = dataclasses.replace(RECIPE, learning_rate=1e30, average=None, schedule="cosine", warmup=0.5)
    config = dataclasses.replace(CONFIG, recipe=wild)
    with pytest.raises(CapsNetError, match=r"no longer a finite number at step \d+.*last good state"):
        train(config, tmp_path / "run", save_every=0)
    from safetensors.torch import load_file

    state = load_file(tmp_path / "run" / "state" / "state.safetensors")
    assert all(t.isfinite().all() for k, t in state.items() if k.startswith("model."))


def test_without_validation_the_last_weights_are_tested_and_there_is_no_best(tmp_path):
    config = dataclasses.replace(CONFIG, validation=0, recipe=dataclasses.replace(RECIPE, epochs=1))
    result = train(config, tmp_path / "run")
    assert result["validation_error_percent"] is None
    assert result["selected"]["weights"] == "last"
    assert not (tmp_path / "run" / "best").exists()
    assert result["train_images"] == 80


def test_the_batch_is_at_most_a_twentieth_of_the_training_images(run):
    assert run[1]["batch_size"] == 64 // 20


def test_a_budget_of_images_ends_a_run_within_an_epoch(tmp_path):
    recipe = dataclasses.replace(RECIPE, images=100, schedule="cosine", average=None)
    result = train(dataclasses.replace(CONFIG, recipe=recipe), tmp_path / "run")
    # 64 training images in batches of 3: 22 steps an epoch; 34 steps in all, 12 of them in the second epoch.
    assert (result["epochs"], result["images_seen"]) == (2, 64 + 36)
    assert [row["epoch"] for row in result["curve"]] == [1, 2]
    assert result["curve"][-1]["learning_rate"] < 1e-5


def test_training_goes_on_from_other_weights(run, tmp_path):
    folder, _ = run
    tiny = dataclasses.replace(RECIPE, epochs=1, learning_rate=1e-12, average=None)
    config = dataclasses.replace(CONFIG, init=str(folder / "last"), recipe=tiny)
    train(config, tmp_path / "run")
    key = "encoder.blocks.0.conv.weight"
    torch.testing.assert_close(tensors(tmp_path / "run" / "last")[key], tensors(folder / "last")[key])
    assert capsnet.load(tmp_path / "run").card.provenance["init"] == config.init
    assert "init" not in capsnet.load(folder).card.provenance


def test_without_reconstruction_there_is_no_decoder(tmp_path):
    recipe = dataclasses.replace(RECIPE, epochs=1)
    config = dataclasses.replace(CONFIG, model_options={"decoder": False}, recipe=recipe)
    train(config, tmp_path / "run")
    assert capsnet.load(tmp_path / "run").decoder is None


def test_32_images_are_overfitted():
    dataset = load_dataset("sliced_mnist")
    split = dataset.train.select(torch.arange(32))
    batch = next(dataset.evaluation_batches(split, 32))
    torch.manual_seed(0)
    model = capsnet.create_model("efficient_capsnet").train()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-7)
    for _ in range(60):
        loss = training_loss(model, batch, RECIPE, 1.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert bool((model(batch.images).scores.argmax(1) == split.labels).all())


def test_a_fraction_of_the_batch_can_be_reconstructed():
    dataset = load_dataset("sliced_mnist")
    batch = next(dataset.evaluation_batches(dataset.train, 8))
    model = capsnet.create_model("efficient_capsnet").eval()
    half = dataclasses.replace(RECIPE, reconstruct_fraction=0.5)
    output = model(batch.images)
    picture = model.reconstruct(output.poses[:4], batch.classes[:4, 0])
    expected = (
        model.classification_loss(output, batch.targets)
        + 0.392 * (picture - batch.images[:4]).square().mean()
    )
    torch.testing.assert_close(training_loss(model, batch, half, 1.0), expected)


def test_numbers_too_small_for_full_precision_are_zero_only_while_training(tmp_path):
    seen = []

    class Watch(Callback):
        def on_step(self, run):
            seen.append(float(torch.tensor(1e-38) * 1e-3))

    train(
        dataclasses.replace(CONFIG, recipe=dataclasses.replace(RECIPE, epochs=1)),
        tmp_path / "r",
        callbacks=[Watch()],
    )
    assert set(seen) == {0.0}
    assert float(torch.tensor(1e-38) * 1e-3) > 0


def test_statistics_of_plain_images_are_what_is_evaluated_and_kept(tmp_path):
    recipe = dataclasses.replace(RECIPE, epochs=1, plain_statistics=32, augmentation="byerly")
    kept = {}
    for name, images in (("plain", 32), ("own", 0)):
        config = dataclasses.replace(CONFIG, recipe=dataclasses.replace(recipe, plain_statistics=images))
        train(config, tmp_path / name)
        kept[name] = tensors(tmp_path / name / "last")
    statistics = [key for key in kept["own"] if "running" in key]
    assert statistics
    for key, value in kept["own"].items():
        assert torch.equal(value, kept["plain"][key]) == ("running" not in key and "tracked" not in key), key


def test_the_late_augmentation_takes_the_last_steps(tmp_path, monkeypatch):
    recipe = dataclasses.replace(
        RECIPE, epochs=2, augmentation="byerly", late_augmentation="none", late_from=0.7
    )
    config = dataclasses.replace(CONFIG, recipe=recipe, test=False)
    dataset = load_dataset("sliced_mnist")
    taken = []
    original = type(dataset).training_batch

    def watched(self, split, augmentation, generator):
        taken.append(augmentation)
        return original(self, split, augmentation, generator)

    monkeypatch.setattr(type(dataset), "training_batch", watched)
    train(config, tmp_path / "run")
    early = math.ceil(0.7 * len(taken))
    assert taken == ["byerly"] * early + ["none"] * (len(taken) - early)


def test_an_unknown_late_augmentation_is_an_error_before_anything_is_written(tmp_path):
    recipe = dataclasses.replace(RECIPE, late_augmentation="wobbly")
    with pytest.raises(CapsNetError, match="wobbly"):
        train(dataclasses.replace(CONFIG, recipe=recipe), tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()


def test_compiling_keeps_the_schedule_of_batchnorm(run, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: None)  # only what the loop does differently
    train(dataclasses.replace(CONFIG, compile=True), tmp_path / "run")
    eager, compiled = tensors(run[0] / "last"), tensors(tmp_path / "run" / "last")
    for key, value in eager.items():
        if "running" in key:
            torch.testing.assert_close(compiled[key], value, rtol=1e-4, atol=1e-5)


class Elsewhere(Callback):
    """Starts the same run from another process, in the middle of this one."""

    def on_step(self, run):
        if run.step != 2:
            return
        words = ["train", "--config", str(run.run.path / "config.json"), "--out", str(run.run.path)]
        for resume in ([], ["--resume"]):
            program = f"import runpy; runpy.run_path({CONFTEST!r}); from capsnet.cli import main; main({[*words, *resume]!r})"
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=False
            )
            assert done.returncode == 2
            assert "Another process is training in" in " ".join(done.stderr.split())
            assert "Traceback" not in done.stderr


def test_two_processes_never_train_in_one_folder(run, tmp_path):
    train(CONFIG, tmp_path / "run", callbacks=[Elsewhere()])
    assert_same_bits(tensors(run[0] / "last"), tensors(tmp_path / "run" / "last"))


def test_a_lock_that_a_killed_process_left_behind_does_not_matter(tmp_path):
    program = (
        "import os, signal, sys; from pathlib import Path; from capsnet.locks import folder_lock\n"
        "with folder_lock(Path(sys.argv[1])) as free: assert free; os.kill(os.getpid(), signal.SIGKILL)"
    )
    folder = tmp_path / "a run"
    done = subprocess.run([sys.executable, "-c", program, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (folder / ".lock").exists()
    config = dataclasses.replace(CONFIG, recipe=dataclasses.replace(RECIPE, epochs=1))
    assert train(config, folder)["epochs"] == 1


class Notes(Callback):
    """Writes down what it hears."""

    def __init__(self):
        self.heard = []

    def __getattribute__(self, name):
        if name.startswith("on_") or name == "teardown":
            self.heard.append(name)
        return super().__getattribute__(name)


def test_callbacks_hear_each_part_of_a_training_once_and_in_order(tmp_path):
    notes = Notes()
    config = dataclasses.replace(CONFIG, recipe=dataclasses.replace(RECIPE, images=18))
    train(config, tmp_path / "run", callbacks=[notes])
    epoch = ["on_epoch_start", *["on_step"] * 6, "on_epoch_end"]
    assert notes.heard == ["on_train_start", *epoch, "on_train_end", *["on_test_batch"] * 4, "teardown"]


def test_a_callback_can_stop_a_run_in_the_middle_of_an_epoch(tmp_path):
    class Enough(Callback):
        def on_step(self, run):
            if run.step == 25:
                run.stop()

    result = train(CONFIG, tmp_path / "run", callbacks=[Enough()])
    assert (result["epochs"], result["images_seen"]) == (2, 64 + 9)
    assert result["test_images"] == 200
    assert train(CONFIG, tmp_path / "run", resume=True) == result
