"""Waiting threads spin for a bounded time, a shorter one while others want the cores, unless the user wants something else."""

import os
import subprocess
import sys
import threading
import time

import pytest

from capsnet import waiting

SHOW = "import os; import capsnet; print(os.environ.get('GOMP_SPINCOUNT'))"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, waiting.SPINS),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"GOMP_SPINCOUNT": ""}, ""),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "None"),
    ],
)
def test_spinning_is_bounded_unless_the_user_chose(chosen, expected):
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {name: value for name, value in os.environ.items() if name not in names} | chosen
    done = subprocess.run(
        [sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == expected


def test_it_is_set_before_torch_is_loaded():
    code = "import sys; import capsnet; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def sleepers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == waiting.SLEEPER]


def wait_until(true) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def readings(monkeypatch):
    """Seconds that a thread waited for a core between two looks: set `readings["each"]`."""
    pytest.importorskip("torch")  # brings OpenMP
    given = {"each": 0.0}
    spent = [0.0]

    def waited() -> dict[str, float]:
        spent[0] += given["each"]
        return {"1": spent[0]}

    monkeypatch.setenv("GOMP_SPINCOUNT", waiting.SPINS)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setattr(waiting, "_waited", waited)
    monkeypatch.setattr(waiting, "LOOK_EVERY", 0.01)
    if waiting._enter_region() is None:
        pytest.skip("OpenMP is not GNU's here")
    return given


def test_sleepers_come_when_threads_wait_for_a_core_and_go_when_they_no_longer_do(readings):
    with waiting.sharing_cores(2):
        time.sleep(0.05)
        assert not sleepers()
        readings["each"] = 0.005
        wait_until(sleepers)
        time.sleep(0.05)
        assert len(sleepers()) == 1
        readings["each"] = 0.0
        wait_until(lambda: not sleepers())
        readings["each"] = 0.005
        wait_until(sleepers)
    wait_until(lambda: not sleepers())


@pytest.mark.parametrize(
    "setting", [{"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": ""}]
)
def test_nothing_is_watched_when_the_user_chose(readings, monkeypatch, setting):
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    with waiting.sharing_cores(2):
        assert not any(thread.name == waiting.WATCH for thread in threading.enumerate())


def test_nothing_is_watched_with_one_thread_or_where_the_system_does_not_tell(readings, monkeypatch):
    with waiting.sharing_cores(1):
        assert not any(thread.name == waiting.WATCH for thread in threading.enumerate())
    monkeypatch.setattr(waiting, "_waited", dict)
    with waiting.sharing_cores(2):
        assert not any(thread.name == waiting.WATCH for thread in threading.enumerate())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")
def test_the_time_without_a_core_is_read_per_thread():
    found = waiting._waited()
    assert str(os.getpid()) in found
    assert all(seconds >= 0 for seconds in found.values())
