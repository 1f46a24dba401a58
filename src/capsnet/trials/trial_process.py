"""A trial as a process of its own on this machine.

While it trains it holds a lock that the operating system frees with it: two programs never train a seed twice at once. On
Linux it is interrupted, and so saves its state, when its parent is killed.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from capsnet.errors import CapsNetError
from capsnet.machine import cores

try:
    import fcntl
except ImportError:  # Windows: no lock, one `trials` at a time
    fcntl = None  # type: ignore[assignment]

CAPSNET = (sys.executable, "-m", "capsnet")
CONFIG, LOG = "trials.json", "log.txt"
POLL = 0.2
SET_PARENT_DEATH_SIGNAL = 1  # prctl's number for it
LIBC = (
    ctypes.CDLL(None) if sys.platform == "linux" else None
)  # loaded here: a forked child must not take locks


class LocalEngine:
    """Trains some trials at a time on this machine, its cores divided among them.

    Args:
        command: what is run with `train ...` after it.
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
    """A process that trains into a folder, which it has locked."""

    note = ""

    def __init__(self, process: subprocess.Popen[bytes], lock: int | None) -> None:
        self.process, self.lock = process, lock

    def begun(self) -> bool:
        return True

    def poll(self) -> int | None:
        code = self.process.poll()
        if code is not None and self.lock is not None:
            os.close(self.lock)
            self.lock = None
        return code

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        return self.process.wait()

    def kill(self) -> None:
        self.process.kill()


def start_process(folder: Path, command: Sequence[str], cwd: str | None = None) -> TrialProcess | None:
    """Starts a command whose output goes to the folder's log; None while another process holds the folder's lock."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = acquire(folder / ".lock")
        if lock == HELD:
            return None
        with (folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # The child holds the lock as long as it lives, also when this process dies.
                pass_fds=[lock] if lock is not None else [],
                # Ctrl-C on the terminal reaches this process alone, which then ends its trials in order.
                start_new_session=True,
                preexec_fn=interrupt_with_parent if sys.platform == "linux" else None,
            )
    except OSError as error:
        raise CapsNetError(f"Could not train in '{folder}': {error.strerror}.") from error
    return TrialProcess(process, lock)


HELD = -1


def acquire(file: Path) -> int | None:
    """A lock's descriptor; None where there are no locks, HELD where another process has it."""
    if fcntl is None:
        return None
    lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return HELD
    except OSError:  # some network storage has no locks
        os.close(lock)
        return None
    return lock


def interrupt_with_parent() -> None:
    """In the child: be interrupted when the parent dies, however it dies; and hear it, which Ray's workers don't."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    assert LIBC
    LIBC.prctl(SET_PARENT_DEATH_SIGNAL, int(signal.SIGINT))


def last_line(path: Path) -> str:
    """The end of a log, its last kilobytes read only."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
