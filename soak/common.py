"""What every part of the soak needs: its record, a server to attack, and processes that may be killed."""

import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from capsnet.files import write_json
from capsnet.train.provenance import provenance
from soak.alarm import kill_me_after

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "results" / "reliability"


@dataclass(frozen=True)
class Bound:
    """When a work ends: at a moment, or after so many files, whichever comes first."""

    end: float
    most: float = math.inf

    def reached(self, done: int) -> bool:
        return done >= self.most or time.monotonic() >= self.end


def bounds(
    seconds: float, count: int | None, shares: dict[str, tuple[float, float]]
) -> Iterator[tuple[str, Bound]]:
    """Divide the count among works that follow one another, or the time when there is no count.

    Args:
        shares: of the time and of the count, by the work's name.
    """
    end = time.monotonic() + seconds
    all_time, all_count = (sum(share) for share in zip(*shares.values(), strict=True))
    for name, (of_time, of_count) in shares.items():
        if count is None:
            yield name, Bound(time.monotonic() + seconds * of_time / all_time)
        else:
            yield name, Bound(end, math.ceil(count * of_count / all_count))


def record(part: str, seconds: float, seed: int, result: dict[str, Any], folder: Path) -> None:
    """Keep a part's result."""
    about = {**provenance(torch.device("cpu"), 1), "seconds": round(seconds, 1), "seed": seed}
    write_json(folder / f"{part}.json", {**about, **result})


class Server:
    """`capsnet serve` in a process of its own, on a free port of loopback."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "capsnet", "serve", "--port", "0"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r":(\d+)/", line)
        if not found:
            raise SystemExit(f"The server did not start: {line}")
        self.port = int(found.group(1))
        self.url = f"http://127.0.0.1:{self.port}/"

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            _, self.errors = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def memory(self) -> int:
        """Bytes of real memory that the server and the processes that it started hold at this moment."""
        return sum(resident(pid) for pid in family(self.process.pid))


def family(pid: int) -> list[int]:
    """A process and those that it started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(p for child in children for p in family(int(child)))]


def resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def forked(work: Callable[[], None], seconds: float | None = None, *, descendants: bool = False) -> int:
    """Run `work` in a copy of this process and return its exit code, which is -9 when it is killed after `seconds`.

    The copy has torch imported already, so that a kill falls into the work and not into the start. Its process group is
    killed with it; processes that lead a session of their own, such as trials, only with `descendants`.
    """
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        code = 70
        try:
            if seconds is not None and not descendants:
                kill_me_after(seconds)
            work()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:
            code = 70
        finally:
            os._exit(code)
    try:
        if seconds is None or not descendants:
            _, status = os.waitpid(pid, 0)
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(status)
        end = time.monotonic() + seconds
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= end:
                others = family(pid)[1:]
                kill_group(pid)
                for other in others:
                    with suppress(ProcessLookupError):
                        os.kill(other, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.0005)
    except KeyboardInterrupt:
        kill_group(pid)
        raise


def kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
            return
        except ProcessLookupError:
            continue
