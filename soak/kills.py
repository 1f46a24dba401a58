"""`kill -9` at random moments of saving, generating data, training, trials and exporting; then go on, or read what is there.

The work runs in copies of this process, killed with all that they have started. What was interrupted is resumed, killed
again, and at its end compared byte for byte with the same work done without a kill.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import capsnet
from capsnet.cli import main
from capsnet.data.toyviews import Design, make
from capsnet.errors import CapsNetError
from capsnet.export.runtime import open_session
from capsnet.export.write import export_model
from capsnet.locks import is_locked
from capsnet.trials import trial_process
from soak.common import forked
from soak.copies import start_copy

KILLED = -9
SMALL = Design(elevations=(0,), azimuths=(0, 10), instances=1, size=24)
MEASURE_EVERY = 40  # kills
LONGER = 1.2  # than the work takes: up to when it may be killed


def save_pictures(path: Path) -> Path:
    random = np.random.default_rng(0)
    labels = np.arange(120) % 3
    images = random.integers(0, 100, (120, 20, 20)).astype(np.uint8)
    images[np.arange(120), labels * 6, :] = 255
    np.savez(path, x_train=images[:90], y_train=labels[:90], x_test=images[90:], y_test=labels[90:])
    return path


def digests(folder: Path, patterns: list[str]) -> dict[str, str]:
    """The files that the patterns stand for, by their names there."""
    files = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


Counts = dict[str, int]


def tally() -> Counts:
    return {"kills": 0, "finished": 0, "differing": 0, "unreadable": 0}


def soak_save(folder: Path, random: Random) -> Iterator[Counts]:
    """Overwrite weights again and again; they must be those before or those after, whole."""
    counts = tally()
    model = capsnet.create_model("efficient_capsnet", (1, 20, 20), 3)

    def save(value: float) -> None:
        for tensor in model.state_dict().values():
            tensor.fill_(value)
        capsnet.save(model, folder / "weights")

    moments = Moments(partial(save, 0), random)
    value = 0
    while True:
        code = moments.kill(partial(save, value + 1))
        counts["kills" if code == KILLED else "finished"] += 1
        try:
            tensors = capsnet.load(folder / "weights").state_dict().values()
        except CapsNetError:
            counts["unreadable"] += 1
            save(value)
        else:
            found = {float(v) for tensor in tensors for v in tensor.unique()}
            if found not in ({value}, {value + 1}) or (code == 0 and found != {value + 1}):
                counts["differing"] += 1
            value = int(max(found)) % 1000
        yield counts


class Moments:
    """Kills at random moments of a work that is done again and again.

    How long it takes is measured all the time, for the machine may have other work too.
    """

    def __init__(self, work: Callable[[], None], random: Random) -> None:
        self._random = random
        self._times: deque[float] = deque(maxlen=5)
        for _ in range(3):
            if self._run(work) != 0:
                raise SystemExit("the work fails without a kill")

    def kill(self, work: Callable[[], None]) -> int:
        """Do the work and kill it at some moment; return its exit code, which is 0 where it was quicker."""
        usual = sorted(self._times)[len(self._times) // 2]
        return self._run(work, self._random.uniform(0, LONGER * usual))

    def _run(self, work: Callable[[], None], seconds: float | None = None) -> int:
        began = time.monotonic()
        code = forked(work, seconds)
        if code == 0:
            self._times.append(time.monotonic() - began)
        return code


def soak_resumed(
    folder: Path, random: Random, work: Callable[[Path, bool], None], files: list[str]
) -> Iterator[Counts]:
    """Kill `work(place, resume)`, go on, kill again, until it ends well; its files must be those of an undisturbed one.

    Only files without a date: the best checkpoint's card tells when and under what load it was made. Every other time the
    processes that the work has started are killed with it, as when the machine stops.
    """
    counts = tally()
    expected: dict[str, str] = {}
    place, whole = folder / "killed", folder / "whole"
    measure_at, longest = 0, 0.0
    try:
        while True:
            if counts["kills"] >= measure_at:  # now and then, for the machine may have other work too
                measure_at += MEASURE_EVERY
                began = time.monotonic()
                if forked(partial(work, whole, False)) != 0:
                    raise SystemExit(f"the work in {folder} fails without a kill")
                longest = LONGER * (time.monotonic() - began)
                expected = expected or digests(whole, files)
                if len(expected) < len(files) or digests(whole, files) != expected:
                    raise SystemExit(f"the work in {folder} does not leave the same files each time")
                shutil.rmtree(whole)
            seconds, all_of_it = random.uniform(0, longest), random.random() < 0.5
            code = forked(partial(work, place, place.exists()), seconds, descendants=all_of_it)
            if code == KILLED:
                counts["kills"] += 1
            elif code == 0:
                counts["finished"] += 1
                counts["differing"] += digests(place, files) != expected
                shutil.rmtree(place)
            else:
                counts["unreadable"] += 1
                shutil.rmtree(place, ignore_errors=True)
            yield counts
    finally:
        while any(is_locked(left) for left in place.glob("*/")):  # a trial that saves its state
            time.sleep(0.1)


def soak_make(folder: Path, random: Random) -> Iterator[Counts]:
    def work(place: Path, resume: bool) -> None:
        make(place, seed=1, workers=1, design=SMALL)

    return soak_resumed(folder, random, work, ["train.npz", "test.npz", "toyviews.json"])


def soak_train(folder: Path, random: Random) -> Iterator[Counts]:
    pictures = save_pictures(folder / "pictures.npz")

    def work(place: Path, resume: bool) -> None:
        train(pictures, place, resume)

    # Here, so that the copies have imported all that training imports.
    with open(os.devnull, "w") as quiet, redirect_stdout(quiet), redirect_stderr(quiet):
        train(pictures, folder / "warm", False)
    return soak_resumed(folder, random, work, ["last/model.safetensors"])


def train(pictures: Path, place: Path, resume: bool) -> None:
    words = ["--epochs", "3", "--threads", "1", "--save-every", "0.02", "--out", str(place)]
    main(["train", str(pictures), *words, *(["--resume"] if resume else [])])


def soak_trials(folder: Path, random: Random) -> Iterator[Counts]:
    """Trials are copies of this process here, so that most of their time is training and not importing torch."""
    return _soak_trials(folder, random, start_copy)


def soak_trial_processes(folder: Path, random: Random) -> Iterator[Counts]:
    return _soak_trials(folder, random, trial_process.start_process)


def _soak_trials(folder: Path, random: Random, start: Callable[..., Any]) -> Iterator[Counts]:
    pictures = save_pictures(folder / "pictures.npz")
    words = ["trials", str(pictures), "--seeds", "2", "--epochs", "2", "--jobs", "1", "--threads", "1"]

    def work(place: Path, resume: bool) -> None:
        with patch.object(trial_process, "start_process", start):
            main([*words, "--out", str(place)])

    return soak_resumed(folder, random, work, ["*/last/model.safetensors"])


def soak_export(folder: Path, random: Random) -> Iterator[Counts]:
    """A folder of exported files is not there, or whole."""
    counts = tally()
    torch.manual_seed(0)
    model = capsnet.create_model("efficient_capsnet", (1, 20, 20), 3)
    export_model(model, folder / "warm")
    out = folder / "onnx"
    moments = Moments(lambda: shutil.rmtree(out, ignore_errors=True) or export_model(model, out), random)
    while True:
        shutil.rmtree(folder)
        folder.mkdir()
        code = moments.kill(partial(export_model, model, out))
        counts["kills" if code == KILLED else "finished"] += 1
        if out.exists():
            try:
                for file in ("encoder.onnx", "decoder.onnx", "model.onnx"):
                    open_session((out / file).read_bytes(), 1)
                json.loads((out / "export.json").read_text()) if (out / "export.json").exists() else None
            except (CapsNetError, OSError, ValueError):
                counts["unreadable"] += 1
        elif code == 0:
            counts["differing"] += 1
        yield counts


# What is killed, with its shares of the time and of the kills.
WORK = {
    "save": (soak_save, 0.1, 0.3),
    "data make": (soak_make, 0.1, 0.25),
    "train": (soak_train, 0.3, 0.25),
    "trials": (soak_trials, 0.2, 0.1),
    "trials in new processes": (soak_trial_processes, 0.15, 0.02),
    "export": (soak_export, 0.15, 0.08),
}


def run(seconds: float, seed: int, count: int | None = None) -> dict[str, Any]:
    """Kill now this and now that, so that all are killed in their shares whenever it ends; Ctrl-C ends it too."""
    torch.set_num_threads(1)
    results = {kind: tally() for kind in WORK}
    spent = dict.fromkeys(WORK, 0.0)
    end = time.monotonic() + seconds

    def behind(kind: str) -> float:
        _, of_time, of_kills = WORK[kind]
        return spent[kind] / of_time if count is None else results[kind]["kills"] / of_kills

    with tempfile.TemporaryDirectory() as name:
        works = {}
        for kind, (work, *_) in WORK.items():
            (Path(name) / kind).mkdir()
            works[kind] = work(Path(name) / kind, Random(f"{seed} {kind}"))
        try:
            while time.monotonic() < end and (
                count is None or sum(r["kills"] for r in results.values()) < count
            ):
                kind = min(WORK, key=behind)
                began = time.monotonic()
                results[kind] = next(works[kind])
                spent[kind] += time.monotonic() - began
        except KeyboardInterrupt:
            pass
        for work in works.values():
            work.close()
    return {"sum": {key: sum(r[key] for r in results.values()) for key in tally()}, "work": results}
