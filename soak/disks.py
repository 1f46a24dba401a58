"""A disk that is full, or may not be written, from a random write on: one sentence, what was there before intact, no rubbish.

In a copy of this process an audit hook lets the writes fail that Python makes (opening to write, renaming, making a folder,
removing), and the system's limit on a file's size those that libraries make by themselves.
"""

import errno
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch

import capsnet
from capsnet.cli import main
from capsnet.data.toyviews import make
from capsnet.errors import CapsNetError
from capsnet.files import read_json, write_json
from soak.common import forked
from soak.kills import SMALL, digests, save_pictures

FULL = {"open", "os.mkdir"}
READ_ONLY = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
REFUSED = 2
FAULTS = ("full", "read-only", "file size")


def fail_writes(folder: Path, fault: str, after: int) -> None:
    """From the write after so many on, everything in `folder` fails."""
    events, code = (FULL, errno.ENOSPC) if fault == "full" else (READ_ONLY, errno.EROFS)
    left = [after]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in events or not str(arguments[0]).startswith(str(folder)):
            return
        if event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        left[0] -= 1
        if left[0] < 0:
            raise OSError(code, os.strerror(code))

    sys.addaudithook(hook)


def with_fault(work: Callable[[], None], folder: Path, fault: str, after: int) -> None:
    """Do the work; the library's own error is exit code 2."""
    if fault == "file size":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (after, after))
    else:
        fail_writes(folder, fault, after)
    try:
        work()
    except CapsNetError:
        raise SystemExit(REFUSED) from None


def soak_work(
    folder: Path,
    end: float,
    random: Random,
    work: Callable[[Path], None],
    check: Callable[[Path], bool],
    writes: int,
    size: int,
) -> dict[str, int]:
    """Each time a fresh `place`, the work with a fault, a look at what is left, and the same work without a fault."""
    counts = dict.fromkeys(("faults", "finished", "tracebacks", "unreadable", "rubbish", "not_resumed"), 0)
    place = folder / "place"
    while time.monotonic() < end:
        fault = random.choice(FAULTS)
        after = random.randrange(size) if fault == "file size" else random.randrange(writes)
        code = forked(partial(with_fault, partial(work, place), folder, fault, after))
        counts["faults"] += code != 0
        counts["finished"] += code == 0
        counts["tracebacks"] += code not in (0, REFUSED)
        if fault != "read-only":  # there nothing can be taken away either
            left = [p for p in folder.rglob("*") if p.name.endswith((".tmp", ".part"))]
            counts["rubbish"] += bool(left)
        if forked(partial(work, place)) != 0:
            counts["not_resumed"] += 1
        elif not check(place):
            counts["unreadable"] += 1
        shutil.rmtree(place, ignore_errors=True)
    return counts


def run(seconds: float, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    results = {}
    model = capsnet.create_model("efficient_capsnet", (1, 20, 20), 3)

    def save(place: Path) -> None:
        capsnet.save(model, place / "weights")

    def save_check(place: Path) -> bool:
        return bool(capsnet.load(place / "weights"))

    def record(place: Path) -> None:
        write_json(place / "x.json", {"x": list(range(1000))})

    def record_check(place: Path) -> bool:
        return len(read_json(place / "x.json")["x"]) == 1000

    def generate(place: Path) -> None:
        make(place, seed=1, workers=1, design=SMALL)

    def train(pictures: Path, place: Path) -> None:
        words = [
            "train",
            str(pictures),
            "--epochs",
            "2",
            "--threads",
            "1",
            "--save-every",
            "0.02",
            "--out",
            str(place),
        ]
        main([*words, *(["--resume"] if place.exists() else [])])

    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        pictures = save_pictures(base / "pictures.npz")
        generate(base / "made")
        names = ["train.npz", "test.npz", "toyviews.json"]
        expected = digests(base / "made", names)
        train_once = partial(train, pictures)
        if forked(partial(train_once, base / "trained")) != 0:
            raise SystemExit("training fails without a fault")
        weights = digests(base / "trained", ["last/model.safetensors"])
        every: dict[str, tuple[float, Any, Any, int, int]] = {
            "save": (0.2, save, save_check, 8, 900_000),
            "record": (0.1, record, record_check, 4, 8_000),
            "data make": (0.3, generate, lambda p: digests(p, names) == expected, 40, 30_000),
            "train": (0.4, train_once, lambda p: digests(p, list(weights)) == weights, 60, 900_000),
        }
        for kind, (share, work, check, writes, size) in every.items():
            folder = base / kind
            folder.mkdir()
            end = time.monotonic() + seconds * share
            results[kind] = soak_work(folder, end, Random(f"{seed} {kind}"), work, check, writes, size)
            print(kind, results[kind], flush=True)
    keys = next(iter(results.values()))
    return {"sum": {key: sum(r[key] for r in results.values()) for key in keys}, "work": results}
