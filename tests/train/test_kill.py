"""`kill -9` at random moments, in a real process: what is left can always be resumed, to the same bits."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

ARGUMENTS = [
    "train",
    "mnist",
    "--limit",
    "400",
    "--validation",
    "40",
    "--epochs",
    "2",
    "--threads",
    "1",
    "--seed",
    "5",
]


def start(folder, *more):
    command = [sys.executable, "-m", "capsnet", *ARGUMENTS, "--out", str(folder), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def test_killed_at_random_moments_and_resumed_a_run_ends_byte_for_byte_the_same(tmp_path):
    finish(start(tmp_path / "whole"))
    folder, moments = tmp_path / "killed", random.Random(7)
    state = folder / "state" / "state.safetensors"
    kills = 0
    process = start(folder, "--save-every", "0.05")
    while kills < 4:
        began = state.stat().st_mtime_ns if state.exists() else 0
        while process.poll() is None and (not state.exists() or state.stat().st_mtime_ns == began):
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.8))
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        kills += 1
        process = start(folder, "--save-every", "0.05", "--resume")
    finish(process)
    assert kills >= 2
    for name in ("last/model.safetensors", "metrics.csv"):
        whole, killed = (tmp_path / "whole" / name).read_bytes(), (folder / name).read_bytes()
        if name.endswith("csv"):  # the clock's columns differ
            whole, killed = ([row.split(b",")[:5] for row in text.split()] for text in (whole, killed))
        assert whole == killed, name


@pytest.mark.parametrize("signal_number", [signal.SIGINT])
def test_ctrl_c_says_how_to_go_on_and_resuming_works(tmp_path, signal_number):
    folder = tmp_path / "run"
    process = start(folder, "--save-every", "0.05")
    state, written = folder / "state" / "state.safetensors", set()
    while len(written) < 2:  # the first is from before the first step
        assert process.poll() is None, process.communicate()
        if state.exists():
            written.add(state.stat().st_mtime_ns)
        time.sleep(0.01)
    process.send_signal(signal_number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "--resume continues it" in err
    assert "Traceback" not in err
    finish(start(folder, "--resume"))
    assert (folder / "result.json").exists()
