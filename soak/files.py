"""Hostile files for every reader: each must be read or refused with the library's own error, soon and in little memory.

A reader works in a copy of this process that a watchdog ends when a file takes it more than ten seconds, not counting those in
which the machine did other work. What it raises beside `CapsNetError` counts as a traceback, its death as a crash; both are
kept with the number that makes the file again.
"""

import mmap
import os
import resource
import struct
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch

from capsnet.errors import CapsNetError
from soak.common import Bound, bounds, kill_group
from soak.readers import Reader, readers

HANG = 10.0
MOST_MEMORY = 1 << 30
CHUNK = 4000  # files that one copy of this process reads
COUNTS = ("files", "read", "refused", "tracebacks", "crashes", "hangs")
KEPT = 20  # failures of a reader that are told of


class Tally:
    """Counts that a copy of this process adds to and this one reads."""

    NAMES = ("begun", "read", "refused", "tracebacks", "memory")

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, 8 * len(self.NAMES))

    def get(self, name: str) -> int:
        at = 8 * self.NAMES.index(name)
        return int(struct.unpack("<q", self._map[at : at + 8])[0])

    def put(self, name: str, value: int) -> None:
        at = 8 * self.NAMES.index(name)
        self._map[at : at + 8] = struct.pack("<q", value)

    def add(self, name: str) -> None:
        self.put(name, self.get(name) + 1)


def feed(
    reader: Reader, folder: Path, numbers: range, seed: int, tally: Tally, failures: Path, bound: Bound
) -> None:
    """Give a reader its files, one after the other."""
    warnings.simplefilter("ignore")
    for name, content in reader.around.items():
        (folder / name).write_bytes(content)
    path = folder / reader.place
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in numbers:
        if bound.reached(number):
            break
        random = Random(f"{seed} {number}")
        path.write_bytes(reader.spoil(random.choice(reader.seeds), random))
        tally.add("begun")
        try:
            reader.read(path)
            tally.add("read")
        except CapsNetError:
            tally.add("refused")
        except Exception as error:
            tally.add("tracebacks")
            with open(failures, "a") as file:
                file.write(f"{number}: {type(error).__name__}: {str(error)[:200]}\n".replace(str(folder), ""))
    tally.put("memory", 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))


def watched(work: Callable[[], None], tally: Tally) -> str | None:
    """Run `work` in a copy of this process; "hang" or "crash" when it had to be ended, or ended itself."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (now + MOST_MEMORY, now + MOST_MEMORY))
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    last, waited, looked, delayed = -1, 0.0, time.monotonic(), 0.0
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return None if status == 0 else "crash"
        # Not the time in which it was ready and other processes had the processor, nor in which both were stopped.
        now, delay = time.monotonic(), seconds_delayed(pid)
        waited += max(0.0, min(now - looked, 1.0) - (delay - delayed))
        looked, delayed = now, delay
        if tally.get("begun") != last:
            last, waited = tally.get("begun"), 0.0
        elif waited > HANG:
            kill_group(pid)
            os.waitpid(pid, 0)
            return "hang"
        time.sleep(0.02)


def seconds_delayed(pid: int) -> float:
    """Return how long a process has been ready to run and was not run."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def soak_reader(reader: Reader, base: Path, bound: Bound, seed: int) -> dict[str, Any]:
    """Give a reader files, in one copy of this process after the other."""
    folder, failures = base / "in", base / "failures"
    folder.mkdir(parents=True)
    result: dict[str, Any] = {**dict.fromkeys(COUNTS, 0), "memory_mb": 0}
    told: list[str] = []
    number = 0
    while not bound.reached(number):
        tally = Tally()
        numbers = range(number, number + CHUNK)
        ended = watched(partial(feed, reader, folder, numbers, seed, tally, failures, bound), tally)
        number += tally.get("begun")
        for key in ("read", "refused", "tracebacks"):
            result[key] += tally.get(key)
        result["files"] = number
        result["memory_mb"] = max(result["memory_mb"], round(tally.get("memory") / 1e6))
        if ended is not None:
            result["hangs" if ended == "hang" else "crashes"] += 1
            told.append(f"{number - 1}: {ended}")
    told += failures.read_text().splitlines() if failures.exists() else []
    return {**result, **({"failures": told[:KEPT]} if told else {})}


def run(seconds: float, seed: int, count: int | None = None) -> dict[str, Any]:
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        (base / "made").mkdir()
        every = readers(base / "made")
        shares = {kind: (reader.share, reader.share) for kind, reader in every.items()}
        for kind, bound in bounds(seconds, count, shares):
            results[kind] = soak_reader(every[kind], base / str(len(results)), bound, seed)
            print(kind, results[kind], flush=True)
    sums = {key: sum(result[key] for result in results.values()) for key in COUNTS}
    return {"sum": sums, "most_memory_mb": max(r["memory_mb"] for r in results.values()), "readers": results}
