"""A trial as a copy of this process, which has imported everything that training needs.

Like a trial in a process of its own, it leads a session and is interrupted when its parent dies.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from capsnet.cli import main
from capsnet.locks import is_locked
from capsnet.trials.trial_process import CAPSNET, LOG, interrupt_with_parent


class Copy:
    """A copy that trains into a folder; what `TrialProcess` is for a process."""

    note = ""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None

    def begun(self) -> bool:
        return True

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> object:
        return self._wait(0)

    def _wait(self, options: int) -> int | None:
        if self.code is None:
            done, status = os.waitpid(self.pid, options)
            self.code = os.waitstatus_to_exitcode(status) if done else None
        return self.code

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def start_copy(folder: Path, command: Sequence[str], cwd: str | None = None) -> Copy | None:
    """Do what `trial_process.start_process` does, without a new interpreter."""
    if is_locked(folder):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    pid = os.fork()
    if pid != 0:
        return Copy(pid)
    code = 1
    try:
        os.setsid()
        interrupt_with_parent()
        log = os.open(folder / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for stream in (1, 2):
            os.dup2(log, stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        main(command[len(CAPSNET) :])
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)
