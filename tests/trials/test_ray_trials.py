"""Trials on a real Ray cluster of three nodes, all on this machine."""

import contextlib
import dataclasses
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from capsnet.cli import main
from capsnet.config import Config, Recipe
from capsnet.data import load_dataset
from capsnet.errors import CapsNetError
from capsnet.evaluate.compare import compare
from capsnet.evaluate.ensembles import open_members
from capsnet.report.records import Results
from capsnet.train.loop import train
from capsnet.trials.ray_trials import RayEngine
from capsnet.trials.trial_process import LocalEngine
from capsnet.trials.trials import run_trials

# Long enough for three trials to be at work at the same time, however they were started.
RECIPE = Recipe(name="tiny", epochs=25, batch_size=16, learning_rate=1e-3)
# Without TensorBoard, whose import would be most of a short run.
COMMAND = [
    sys.executable,
    "-c",
    "import sys; sys.modules['tensorboard'] = None; from capsnet.cli import main; main()",
]

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Some digits, in a file that other processes can read by its path."""
    import numpy as np

    file, mnist = tmp_path_factory.mktemp("data") / "digits.npz", load_dataset("mnist")
    parts = {"train": (mnist.train, 200), "test": (mnist.test, 100)}
    arrays = {f"x_{k}": v.images[:n].numpy() for k, (v, n) in parts.items()}
    arrays |= {f"y_{k}": v.labels[:n].numpy() for k, (v, n) in parts.items()}
    np.savez(file, **arrays)
    return Config(str(file), "base_capsnet", RECIPE, validation=20, threads=1)


NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes; the third comes and goes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_DISABLE_IMPORT_WARNING", "1")
        import ray
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        cluster.add_node(wait=False, **NODE)
        yield cluster
        ray.shutdown()
        cluster.shutdown()


def run_and_kill_a_node(cluster, config, folder, seeds):
    """Trials on three nodes, of which one is killed when all three are at work and past their first epoch."""
    third, killed = cluster.add_node(**NODE), []

    def watch(trials):
        if not killed and sum(trial.state == "training" and bool(trial.row) for trial in trials) == 3:
            cluster.remove_node(third, allow_graceful=False)
            killed.append(True)

    engine = RayEngine(cluster.address, command=COMMAND)
    done = run_trials(config, folder, seeds, engine=engine, save_every=0.2, watch=watch)
    assert killed
    assert [trial.state for trial in done] == ["done"] * len(seeds), [trial.note for trial in done]
    starts = {seed: (folder / f"s{seed}" / "log.txt").read_text().count("base_capsnet on") for seed in seeds}
    assert sorted(starts.values())[-2:] == [1, 2], "one trial had to be started again"
    return done, max(starts, key=starts.__getitem__)


def weights(folder, seed):
    return (folder / f"s{seed}" / "last" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def storage(config, cluster, tmp_path_factory):
    """Three trials, on all three nodes at once."""
    folder = tmp_path_factory.mktemp("storage") / "digits-base_capsnet-tiny"
    return folder, run_and_kill_a_node(cluster, config, folder, range(3))


def test_trials_finish_although_a_node_dies_and_the_one_that_was_on_it_has_the_same_weights(
    storage, config, tmp_path
):
    folder, (_, again) = storage
    train(dataclasses.replace(config, seed=again), tmp_path / f"s{again}")
    assert weights(folder, again) == weights(tmp_path, again)
    assert json.loads((folder / "summary.json").read_text())["finished"] == 3


@pytest.mark.slow
def test_six_trials_have_the_weights_of_the_local_engine_although_a_node_dies(cluster, config, tmp_path):
    seeds = range(10, 16)
    run_and_kill_a_node(cluster, config, tmp_path / "ray", seeds)
    run_trials(config, tmp_path / "local", seeds, engine=LocalEngine(2, COMMAND))
    for seed in seeds:
        assert weights(tmp_path / "ray", seed) == weights(tmp_path / "local", seed)
    ray, local = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("ray", "local"))
    assert ray["errors"] == local["errors"]


def test_report_compare_and_ensemble_read_the_storage_finished_or_not(storage, tmp_path):
    folder, (done, _) = storage
    place = tmp_path / "storage" / folder.name
    shutil.copytree(folder, place)
    (place / "s2" / "result.json").unlink()
    assert compare(place, place)["seeds"] == [0, 1]
    assert len(open_members([str(place)])) == 2
    dataset = done[0].result["dataset"]
    assert [record["seed"] for record in Results(place.parent).of(dataset)] == [0, 1]


def test_more_gpus_than_there_are_is_one_sentence(cluster):
    with pytest.raises(
        CapsNetError, match=r"No node of the Ray cluster has 1 CPUs and 4 GPUs .*is 1 CPUs, 0 GPUs"
    ):
        RayEngine(cluster.address, gpus=4)


def said(capfd, *words):
    """What `capsnet trials` says when it refuses."""
    began = time.monotonic()
    with pytest.raises(SystemExit) as stop:
        main(["trials", "mnist", "--engine", "ray", "--seeds", "1", *map(str, words)])
    assert stop.value.code == 2
    assert time.monotonic() - began < 10
    err = capfd.readouterr().err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1
    return err


def test_an_address_where_no_cluster_is_is_one_sentence(capfd, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    assert "no Ray cluster at" in said(capfd, "--storage", tmp_path, "--address", address)
    assert "no Ray cluster at" in said(capfd, "--storage", tmp_path, "--address", "nonsense")
    assert "on a machine of the cluster" in said(capfd, "--storage", tmp_path, "--address", "ray://a:1")
    assert list(tmp_path.iterdir()) == []


def test_storage_that_is_not_there_or_not_said_is_one_sentence(capfd, tmp_path):
    assert "is it mounted?" in said(capfd, "--storage", tmp_path / "gone")
    assert "--storage, a folder that all nodes see" in said(capfd)
    assert list(tmp_path.iterdir()) == []


@contextlib.contextmanager
def full_disk():
    """No file can grow by a byte, which is what a full disk does to a writer."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)


def test_full_storage_is_one_sentence_and_nothing_is_left_half_written(cluster, config, tmp_path):
    engine = RayEngine(cluster.address)
    with full_disk(), pytest.raises(CapsNetError, match="Could not write"):
        run_trials(config, tmp_path / "trials", [0], engine=engine)
    assert list((tmp_path / "trials").iterdir()) == []


def test_a_node_that_does_not_see_the_storage_says_so(cluster, config, tmp_path):
    """It is taken away as soon as a task is on its way."""
    engine, start = RayEngine(cluster.address, command=COMMAND), RayEngine.start
    folder = tmp_path / "trials"

    def unmount(folder, words):
        (folder.parent / "trials.json").unlink()
        return start(engine, folder, words)

    engine.start = unmount
    (trial,) = run_trials(config, folder, [0], engine=engine)
    assert trial.state == "failed"
    assert "does not see" in trial.note


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_training_that_is_killed_is_tried_again(cluster, config, tmp_path):
    killed = []

    def watch(trials):
        if killed or not trials[0].row:
            return
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if str(tmp_path / "s0").encode() in words:
                    killed.append(os.kill(int(process.name), signal.SIGKILL))

    engine = RayEngine(cluster.address, command=COMMAND)
    (trial,) = run_trials(config, tmp_path, [0], engine=engine, save_every=0.2, watch=watch)
    assert killed
    assert trial.state == "done"
    train(config, tmp_path / "whole" / "s0")
    assert weights(tmp_path, 0) == weights(tmp_path / "whole", 0)


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_running_and_the_same_command_goes_on(cluster, config, tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom capsnet.config import Config\nfrom capsnet.files import read_json\n"
        "from capsnet.trials.ray_trials import RayEngine\nfrom capsnet.trials.trials import run_trials\n"
        "config = Config.from_dict(read_json(sys.argv[1]))\n"
        f"engine = RayEngine({cluster.address!r}, command={COMMAND!r})\n"
        "run_trials(config, Path(sys.argv[2]), range(2), engine=engine, save_every=60)\n"
    )
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    folder = tmp_path / "trials"
    words = [sys.executable, "-c", code, str(tmp_path / "config.json"), str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list(folder.glob("s*/metrics.csv")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "the same command continues" in err
    logs = [path.read_text() for path in folder.glob("s*/log.txt")]
    assert any("--resume continues it" in log for log in logs)
    done = run_trials(config, folder, range(2), engine=RayEngine(cluster.address, command=COMMAND))
    assert [trial.state for trial in done] == ["done"] * 2


def test_without_ray_the_engine_says_what_to_install_and_the_core_trains(config, tmp_path):
    code = (
        "import sys; sys.modules['ray'] = None\nfrom capsnet.cli import main\n"
        f"main(['train', {config.dataset!r}, '--model', 'base_capsnet', '--epochs', '1', '--out', sys.argv[1]])\n"
        "main(['trials', 'mnist', '--engine', 'ray', '--storage', sys.argv[2]])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'capsnet[cluster]'" in done.stderr
    assert "test error" in done.stdout
    assert os.listdir(tmp_path) == ["run"]
