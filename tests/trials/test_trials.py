"""Trials in real processes, on a slice of MNIST."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import capsnet
from capsnet.cli import main
from capsnet.cli.trials import recording
from capsnet.config import Config, Recipe
from capsnet.errors import CapsNetError
from capsnet.evaluate.compare import compare, finished_runs
from capsnet.evaluate.predictions import read_predictions
from capsnet.locks import folder_lock
from capsnet.trials.trial_process import LocalEngine, start_process
from capsnet.trials.trials import Trial, run_trials

CONFTEST = str(Path(__file__).parents[1] / "train" / "conftest.py")
# Without TensorBoard, whose import would be most of a short run.
SLICED = f"import runpy, sys; sys.modules['tensorboard'] = None; runpy.run_path({CONFTEST!r}); "
COMMAND = [sys.executable, "-c", f"{SLICED}from capsnet.cli import main; main()"]
RECIPE = Recipe(name="tiny", epochs=2, batch_size=16, learning_rate=1e-3)
CONFIG = Config("sliced_mnist", "efficient_capsnet", RECIPE, limit=80, validation=16, threads=1)


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """Three seeds, two at a time, of which number 1 cannot go on: its state is damaged."""
    folder = tmp_path_factory.mktemp("trials")
    broken = folder / "s1"
    (broken / "state").mkdir(parents=True)
    (broken / "state" / "state.safetensors").write_bytes(b"no state")
    seen = []
    done = run_trials(
        CONFIG,
        folder,
        range(3),
        engine=LocalEngine(2, COMMAND),
        watch=lambda trials: seen.append([trial.state for trial in trials]),
    )
    return folder, done, seen


def test_one_failing_seed_is_named_and_does_not_stop_the_others(trials):
    _, done, _ = trials
    assert [trial.state for trial in done] == ["done", "failed", "done"]
    assert "state.safetensors is damaged" in done[1].note


def test_jobs_run_side_by_side_and_no_more_than_asked_for(trials):
    _, _, seen = trials
    assert max(states.count("training") for states in seen) == 2


def test_the_summary_is_of_the_results(trials):
    folder, done, _ = trials
    summary = json.loads((folder / "summary.json").read_text())
    errors = [trial.result["test_error_percent"] for trial in done if trial.result]
    assert summary["finished"] == 2
    assert [failed["seed"] for failed in summary["failed"]] == [1]
    assert summary["errors"]["test_error_percent"]["mean"] == pytest.approx(sum(errors) / 2)
    assert summary["errors"]["test_error_percent"]["max"] == max(errors)
    assert [seed["seed"] for seed in summary["seeds"]] == [0, 2]


def test_a_second_call_keeps_the_finished_and_mends_the_broken(trials):
    folder, _, _ = trials
    before = {path: path.stat().st_mtime_ns for path in folder.glob("s[02]/result.json")}
    (folder / "s1" / "state" / "state.safetensors").unlink()
    done = run_trials(CONFIG, folder, range(3), engine=LocalEngine(command=COMMAND))
    assert [trial.state for trial in done] == ["done"] * 3
    assert [trial.kept for trial in done] == [True, False, True]
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_kept_predictions_give_the_recorded_error(trials):
    folder, done, _ = trials
    predictions = read_predictions(folder / "s0")
    assert predictions.scores.shape == (200, 10)
    assert predictions.error_percent() == done[0].result["test_error_percent"]
    assert int(predictions.wrong().sum()) == done[0].result["test_errors"]


def test_trials_are_compared_by_seed_and_by_image(trials, capsys):
    folder, _, _ = trials
    seeds = list(finished_runs(folder))
    same = compare(folder, folder)
    assert same["seeds"] == seeds
    assert same["errors"]["test_error_percent"]["difference"]["mean"] == 0
    assert all(row["p"] == 1 and row["only_first_wrong"] == 0 for row in same["mcnemar"])
    a, b = read_predictions(folder / "s0").wrong(), read_predictions(folder / "s2").wrong()
    other = compare(folder / "s0", folder / "s2")
    assert other["mcnemar"][0]["only_first_wrong"] == int((a & ~b).sum())
    main(["compare", str(folder), str(folder)])
    assert "McNemar" in capsys.readouterr().out


def test_runs_without_a_common_seed_cannot_be_compared(trials, tmp_path):
    folder, _, _ = trials
    (tmp_path / "s7").symlink_to(folder / "s0")
    with pytest.raises(CapsNetError, match="no seed in common"):
        compare(folder, tmp_path)


def test_each_result_is_recorded_once_as_its_seed_ends(trials, tmp_path):
    _, done, _ = trials
    shown = []
    watch = recording(tmp_path, shown.append)
    running = [done[0], Trial(2, tmp_path / "s2", state="training")]
    watch(running)
    record = tmp_path / "sliced_mnist" / "efficient_capsnet-tiny-s0.json"
    assert json.loads(record.read_text()) == done[0].result
    assert [path.name for path in record.parent.iterdir()] == [record.name]
    record.unlink()
    watch(done)
    assert [path.name for path in record.parent.iterdir()] == ["efficient_capsnet-tiny-s2.json"]
    assert shown == [running, done]


def test_other_settings_in_the_same_folder_are_refused_before_training(trials):
    folder, _, _ = trials
    other = dataclasses.replace(CONFIG, recipe=dataclasses.replace(RECIPE, learning_rate=0.5))
    with pytest.raises(CapsNetError, match=r"other settings \(learning_rate\)"):
        run_trials(other, folder, range(3), engine=LocalEngine(command=COMMAND))


@pytest.mark.parametrize(("jobs", "seeds"), [(0, 1), (1, 0)])
def test_no_jobs_or_seeds_is_an_error(tmp_path, jobs, seeds):
    with pytest.raises(CapsNetError, match="at least 1"):
        run_trials(CONFIG, tmp_path, range(seeds), engine=LocalEngine(jobs))


def alive(folder):
    """Processes that train in `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if state != "Z" and any(word.startswith(str(folder).encode()) for word in words):
                found.append(process.name)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_stopped_at_any_time_nothing_is_left_running_and_the_next_call_ends_with_the_same_bits(
    trials, tmp_path, stop
):
    whole, _, _ = trials
    code = (
        f"{SLICED}import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\nfrom capsnet.config import Config\nfrom capsnet.files import read_json\n"
        "from capsnet.trials.trial_process import LocalEngine\nfrom capsnet.trials.trials import run_trials\n"
        f"config = Config.from_dict(read_json({str(whole / 'trials.json')!r}))\n"
        f"run_trials(config, Path({str(tmp_path)!r}), [0], save_every=0, engine=LocalEngine(command={COMMAND!r}))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    state = tmp_path / "s0" / "state" / "state.safetensors"
    while not state.exists():
        time.sleep(0.02)
        assert process.poll() is None, process.stderr.read()
    time.sleep(0.2)
    os.kill(process.pid, stop)
    process.communicate(timeout=60)
    until = time.monotonic() + 30
    while alive(tmp_path) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(tmp_path)
    (done,) = run_trials(CONFIG, tmp_path, [0], engine=LocalEngine(command=COMMAND))
    assert done.state == "done"
    for place in ("last", "best"):
        ours = capsnet.load(tmp_path / "s0" / place).state_dict()
        for name, tensor in capsnet.load(whole / "s0" / place).state_dict().items():
            assert tensor.equal(ours[name]), name


@pytest.mark.parametrize("name", ["pictures", "arrays.npz", "two words/labels.csv"])
def test_results_on_your_own_data_are_recorded_under_the_datas_name_not_beside_the_data(
    trials, tmp_path, name
):
    _, done, _ = trials
    own = tmp_path / "mine" / name
    own.mkdir(parents=True)
    result = {**done[0].result, "dataset": str(own)}
    recording(tmp_path / "records", lambda _: None)([dataclasses.replace(done[0], result=result)])
    assert not any(own.iterdir())
    written = tmp_path / "records" / own.stem / "efficient_capsnet-tiny-s0.json"
    assert json.loads(written.read_text()) == result


def test_a_record_that_cannot_be_written_does_not_stop_other_seeds(trials, tmp_path, capfd):
    _, done, _ = trials
    (tmp_path / "records").write_text("a file")
    recording(tmp_path / "records", lambda _: None)(done)
    assert "Could not write" in capfd.readouterr().err


class Ended:
    """A job that was refused."""

    note = ""

    def begun(self):
        return True

    def poll(self):
        return 2


def test_a_seed_that_another_process_trains_is_left_to_it(tmp_path):
    folder = tmp_path / "s0"
    with folder_lock(folder) as free:
        assert free
        assert start_process(folder, [sys.executable, "-c", "raise SystemExit(1)"]) is None
        trial = Trial(0, folder, state="training", job=Ended())
        trial.look()  # the other process was quicker to lock the folder
        assert trial.state == "elsewhere"
    trial = Trial(0, folder, state="training", job=Ended())
    trial.look()
    assert trial.state == "failed"
