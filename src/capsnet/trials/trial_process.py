"""A trial as its own process on this machine.

`capsnet train` locks its folder, so that two programs never train a seed at the same time. On Linux a trial is interrupted,
and so saves its state, when its parent is killed.
"""

import ctypes
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from capsnet.errors import CapsNetError
from capsnet.locks import is_locked
from capsnet.machine import cores

CAPSNET = (sys.executable, "-m", "capsnet")
CONFIG, LOG = "trials.json", "log.txt"
POLL = 0.2
INTERRUPT = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT)  # Windows has an event of its own
SET_PARENT_DEATH_SIGNAL = 1  # prctl's number for it
# Loaded here, since a forked child must not take locks.
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class LocalEngine:
    """Trains some trials at a time on this machine and divides its cores among them.

    Args:
        command: the program that is called with `train ...`.
    """

    def __init__(self, jobs: int = 1, command: Sequence[str] = CAPSNET) -> None:
        if jobs < 1:
            raise CapsNetError(f"--jobs is at least 1; got {jobs}.")
        self.jobs, self.command = jobs, command
        self.threads = max(1, cores() // jobs)

    def room(self, jobs: int) -> bool:
        return jobs < self.jobs

    def start(self, folder: Path, words: list[str]) -> "TrialProcess | None":
        return start_process(folder, [*self.command, *words])


class TrialProcess:
    """A process that trains into a folder."""

    note = ""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def begun(self) -> bool:
        return True

    def poll(self) -> int | None:
        return self.process.poll()

    def interrupt(self) -> None:
        self.process.send_signal(INTERRUPT)

    def wait(self) -> int:
        return self.process.wait()

    def kill(self) -> None:
        self.process.kill()


def start_process(folder: Path, command: Sequence[str], cwd: str | None = None) -> TrialProcess | None:
    """Start a command whose output goes to the folder's log; return None while another process trains in the folder."""
    if is_locked(folder):
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C on the terminal reaches only this process, which then ends its trials in order.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                preexec_fn=interrupt_with_parent if sys.platform == "linux" else None,
            )
    except OSError as error:
        raise CapsNetError(f"Could not train in '{folder}': {error.strerror}.") from error
    return TrialProcess(process)


def interrupt_with_parent() -> None:
    """In the child: be interrupted when the parent dies, and unblock the signal, which Ray's workers block."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    assert LIBC
    LIBC.prctl(SET_PARENT_DEATH_SIGNAL, int(signal.SIGINT))


def last_line(path: Path) -> str:
    """Return the last line of a log; only its last kilobytes are read."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
