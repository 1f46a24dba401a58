"""Data-parallel training in real processes started by torchrun, on a file of some MNIST digits."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

import capsnet
from capsnet.config import Config, Recipe
from capsnet.data import load_dataset
from capsnet.errors import CapsNetError
from capsnet.evaluate.metrics import evaluate
from capsnet.evaluate.predictions import read_predictions
from capsnet.files import read_json, write_json
from capsnet.train.callbacks import Callback
from capsnet.train.distributed import Share, Team, leads
from capsnet.train.loop import train
from capsnet.train.run_folder import RunFolder
from capsnet.train.step import training_loss

# 397 images train: 50 steps, the last with 5 images, 3 and 2 for two processes. A rate at which rounding stays small.
RECIPE = Recipe("steps", epochs=1, batch_size=8, learning_rate=1.5e-4, average=0.9, augmentation="shift")
INSTANCE = {"norm": "instance"}
TRAIN = ["-m", "capsnet", "train"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """An .npz file that other processes can read by its path."""
    file = tmp_path_factory.mktemp("data") / "digits.npz"
    mnist = load_dataset("mnist")
    parts = {"train": (mnist.train, 500), "test": (mnist.test, 100)}
    arrays = {f"x_{k}": v.images[:n].numpy() for k, (v, n) in parts.items()}
    arrays |= {f"y_{k}": v.labels[:n].numpy() for k, (v, n) in parts.items()}
    np.savez(file, **arrays)
    return file


@pytest.fixture(scope="module")
def config(digits):
    return Config(
        str(digits), "efficient_capsnet", RECIPE, limit=407, validation=6, threads=1, model_options=INSTANCE
    )


def torchrun(*words, processes=2, restarts=0):
    options = ["--standalone", "--nproc-per-node", str(processes), "--max-restarts", str(restarts)]
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *options, *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process, code=0):
    out, err = process.communicate(timeout=240)
    assert process.returncode == code, err
    return out, err


class Losses(Callback):
    """Each step's loss."""

    def __init__(self):
        self.each = []

    def on_step(self, run):
        self.each.append(run.loss)


def train_and_keep_losses(config_file, folder):
    """What torchrun runs below."""
    losses = Losses()
    train(Config.from_dict(read_json(config_file)), Path(folder), callbacks=[losses])
    if leads():
        write_json(Path(folder) / "losses.json", losses.each)
        threads = [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
        write_json(Path(folder) / "threads.json", threads)


@pytest.fixture(scope="module")
def alone(config, tmp_path_factory):
    """The run by one process."""
    folder, losses = tmp_path_factory.mktemp("alone") / "run", Losses()
    return folder, train(config, folder, callbacks=[losses]), losses.each


def mean_gradient(model, batch, recipe, size):
    """What DistributedDataParallel leaves in every process."""
    model.zero_grad()
    for rank in range(size):
        (training_loss(model, batch, recipe, 0.5, Share(rank, size)) / size).backward()
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize(("images", "size", "fraction"), [(7, 3, 1.0), (2, 3, 1.0), (7, 2, 0.2), (8, 4, 0.5)])
def test_the_mean_gradient_of_the_shares_is_that_of_the_whole_batch(images, size, fraction):
    dataset = load_dataset("mnist")
    batch = next(dataset.evaluation_batches(dataset.train, images))
    batch = type(batch)(*(t.double() if t.is_floating_point() else t for t in batch))
    recipe = dataclasses.replace(RECIPE, reconstruct_fraction=fraction)
    model = capsnet.create_model("efficient_capsnet", norm="instance").double()
    for ours, whole in zip(
        mean_gradient(model, batch, recipe, size), mean_gradient(model, batch, recipe, 1), strict=True
    ):
        torch.testing.assert_close(ours, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_every_image_is_in_one_share(size):
    dataset = load_dataset("mnist")
    batch = next(dataset.evaluation_batches(dataset.train, 7))
    batch = batch._replace(classes=torch.arange(7).unsqueeze(1))
    shares = [Share(rank, size) for rank in range(size)]
    seen = [n for s in shares if s.weight(7) for n in s.of(batch).classes.flatten().tolist()]
    assert sorted(seen) == list(range(7))
    assert sum(share.weight(7) for share in shares) == pytest.approx(size)
    assert all(len(share.of(batch).images) == share.count(7) for share in shares)


@pytest.fixture(scope="module")
def together(config, tmp_path_factory):
    """The run by two processes."""
    folder = tmp_path_factory.mktemp("together")
    write_json(folder / "config.json", config.to_dict())
    code = (
        "from test_distributed import train_and_keep_losses; import sys; train_and_keep_losses(*sys.argv[1:])"
    )
    script = folder / "steps.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{code}\n")
    ended(torchrun(script, folder / "config.json", folder / "run"))
    return folder / "run"


def test_two_processes_have_the_losses_of_one(alone, together):
    one, result, losses = alone
    both = read_json(together / "result.json")
    assert len(losses) == 50
    assert losses[-1] < losses[0] - 0.02
    assert read_json(together / "losses.json") == pytest.approx(losses, abs=1e-5)
    assert (result["processes"], both["processes"]) == (1, 2)
    for key in ("images_seen", "test_images", "batch_size", "epochs"):
        assert both[key] == result[key]
    ours, theirs = read_predictions(together), read_predictions(one)
    assert ours.same_images(theirs)
    torch.testing.assert_close(ours.scores, theirs.scores, atol=1e-4, rtol=0)
    assert both["test_errors"] == int(ours.wrong().sum())


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_the_threads_of_the_group_end_with_the_training(together):
    names = read_json(together / "threads.json")
    assert names
    assert not [name for name in names if "gloo" in name]


def workers(process):
    """The processes that torchrun started, by rank."""
    found = {}
    for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        values = dict(v.split("=", 1) for v in variables if "=" in v)
        if "RANK" in values:
            found[int(values["RANK"])] = int(pid)
    return found


def wait_for_steps(process, folder, states=2):
    """Until some states were written after the first."""
    state, seen = folder / "state" / "state.safetensors", set()
    while len(seen) <= states:
        assert process.poll() is None, process.communicate()
        if state.exists():
            seen.add(state.stat().st_mtime_ns)
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_killed_worker_is_started_again_and_the_run_ends_whole(digits, tmp_path):
    folder = tmp_path / "run"
    words = [digits, "--model", "base_capsnet", "--epochs", "4", "--limit", "200", "--validation", "20"]
    process = torchrun(*TRAIN, *words, "--save-every", "0.05", "--out", folder, restarts=1)
    wait_for_steps(process, folder)
    os.kill(workers(process)[0], signal.SIGKILL)
    out, err = ended(process)
    assert out.count("test error") == 1
    assert err.count("epoch 4/4") == 1
    result = read_json(folder / "result.json")
    assert [row["epoch"] for row in result["curve"]] == [1, 2, 3, 4]
    assert result["images_seen"] == 4 * result["train_images"] == 4 * 177
    dataset, model = load_dataset(str(digits)), capsnet.load(folder)
    assert evaluate(model, dataset, dataset.test).error_percent == result["test_error_percent"]
    assert model.encoder.blocks[0][2].running_mean.abs().max() > 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_ctrl_c_saves_a_state_that_another_number_of_processes_goes_on_from(alone, config, tmp_path):
    _, whole, _ = alone
    folder = tmp_path / "run"
    write_json(tmp_path / "config.json", config.to_dict())
    process = torchrun(*TRAIN, "--config", tmp_path / "config.json", "--out", folder, "--save-every", "0.05")
    wait_for_steps(process, folder)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err.count("--resume continues it") == 1
    assert not (folder / "result.json").exists()
    resumed = train(config, folder, resume=True)
    assert resumed["processes"] == 1
    assert resumed["curve"][0]["loss"] == pytest.approx(whole["curve"][0]["loss"], abs=1e-5)


def test_only_the_launch_that_made_a_folder_goes_on_in_it_unasked(config, tmp_path, monkeypatch):
    run = RunFolder(tmp_path / "run")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
    assert run.open(config, resume=False) is None
    run.write_config(config)
    assert run.open(config, resume=False) is None
    for other in ("another", "none"):
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", other)
        with pytest.raises(CapsNetError, match="exists already"):
            run.open(config, resume=False)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    with pytest.raises(CapsNetError, match="exists already"):
        run.open(config, resume=False)


def test_nothing_holds_what_the_processes_share_when_they_part(config, tmp_path, monkeypatch):
    class Watched(Team):
        shared, parted = None, False

        def parallel(self, objective, *, unused):
            self.shared = weakref.ref(objective)
            return objective

        def __exit__(self, *_):
            assert self.shared() is None
            self.parted = True

    class Keeps(Callback):
        def on_train_start(self, run):
            self.run = run

    team = Watched(torch.device("cpu"))
    monkeypatch.setattr("capsnet.train.loop.join_team", lambda device: team)
    train(config, tmp_path / "run", callbacks=[Keeps()])
    assert team.parted


@pytest.mark.slow
def test_frozen_parts_stay_as_they_are_in_several_processes(digits, tmp_path):
    words = ["--init", "efficient_capsnet.mnist", "--freeze", "encoder.blocks", "--epochs", "1"]
    ended(torchrun(*TRAIN, digits, *words, "--out", tmp_path / "run", processes=3))
    trained = capsnet.load(tmp_path / "run" / "last").encoder
    source = capsnet.load("efficient_capsnet.mnist").encoder
    for ours, theirs in zip(
        trained.blocks.state_dict().values(), source.blocks.state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs)
    assert not torch.equal(trained.primary.depthwise.weight, source.primary.depthwise.weight)


@pytest.mark.slow
def test_what_a_user_did_wrong_is_said_once_by_all_processes(digits, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    _, err = ended(torchrun(*TRAIN, digits, "--out", tmp_path / "run", restarts=1), code=1)
    assert err.count("exists already") == 2  # once a start
    assert "capsnet/train" not in err
    _, err = ended(torchrun(*TRAIN, digits, "--augment", "mirror", "--out", tmp_path / "new"), code=1)
    assert err.count("There is no augmentation") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_killed_run_of_two_processes_ends_with_the_bits_of_one_never_killed(digits, tmp_path):
    words = [digits, "--epochs", "2", "--limit", "200", "--validation", "20", "--model", "cnn_small"]
    ended(torchrun(*TRAIN, *words, "--out", tmp_path / "whole"))
    process = torchrun(*TRAIN, *words, "--save-every", "0.05", "--out", tmp_path / "killed", restarts=1)
    wait_for_steps(process, tmp_path / "killed")
    os.kill(workers(process)[1], signal.SIGKILL)
    ended(process)
    whole, killed = ((tmp_path / name / "last" / "model.safetensors") for name in ("whole", "killed"))
    assert whole.read_bytes() == killed.read_bytes()
