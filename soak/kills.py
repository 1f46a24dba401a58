"""`kill -9` at random moments of saving, generating data, training, trials and exporting; then go on, or read what is there.

The work runs in copies of this process, killed with all that they have started. What was interrupted is resumed, killed
again, and at its end compared byte for byte with the same work done without a kill.
"""

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

import capsnet
from capsnet.cli import main
from capsnet.data.toyviews import Design, make
from capsnet.errors import CapsNetError
from capsnet.export.runtime import open_session
from capsnet.export.write import export_model
from soak.common import forked

KILLED = -9
SMALL = Design(elevations=(0,), azimuths=(0, 10), instances=1, size=24)
SHARES = {"save": 0.2, "data make": 0.2, "train": 0.3, "trials": 0.15, "export": 0.15}


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


def tally() -> dict[str, int]:
    return {"kills": 0, "finished": 0, "differing": 0, "unreadable": 0}


def soak_save(folder: Path, end: float, random: Random) -> dict[str, int]:
    """Overwrite weights again and again; they must be those before or those after, whole."""
    counts = tally()
    model = capsnet.create_model("efficient_capsnet", (1, 20, 20), 3)

    def save(value: float) -> None:
        for tensor in model.state_dict().values():
            tensor.fill_(value)
        capsnet.save(model, folder / "weights")

    save(0)
    value = 0
    while time.monotonic() < end:
        code = forked(partial(save, value + 1), random.uniform(0, 0.2))
        counts["kills" if code == KILLED else "finished"] += 1
        try:
            tensors = capsnet.load(folder / "weights").state_dict().values()
        except CapsNetError:
            counts["unreadable"] += 1
            save(value)
            continue
        found = {float(v) for tensor in tensors for v in tensor.unique()}
        if found not in ({value}, {value + 1}) or (code == 0 and found != {value + 1}):
            counts["differing"] += 1
        value = int(max(found)) % 1000
    return counts


def soak_resumed(
    folder: Path,
    end: float,
    random: Random,
    work: Callable[[Path, bool], None],
    files: list[str],
) -> dict[str, int]:
    """Kill `work(place, resume)`, go on, kill again, until it ends well; its files must be those of an undisturbed one.

    Only files without a date: the best checkpoint's card tells when and under what load it was made.
    """
    counts = tally()
    began = time.monotonic()
    if forked(partial(work, folder / "whole", False)) != 0:
        raise SystemExit(f"the work in {folder} fails without a kill")
    longest = 1.2 * (time.monotonic() - began)
    expected = digests(folder / "whole", files)
    if len(expected) < len(files):
        raise SystemExit(f"the work in {folder} leaves only {', '.join(expected)}")
    place = folder / "killed"
    while time.monotonic() < end:
        code = forked(partial(work, place, place.exists()), random.uniform(0, longest))
        if code == KILLED:
            counts["kills"] += 1
        elif code == 0:
            counts["finished"] += 1
            counts["differing"] += digests(place, files) != expected
            shutil.rmtree(place)
        else:
            counts["unreadable"] += 1
            shutil.rmtree(place, ignore_errors=True)
    return counts


def soak_make(folder: Path, end: float, random: Random) -> dict[str, int]:
    def work(place: Path, resume: bool) -> None:
        make(place, seed=1, workers=1, design=SMALL)

    return soak_resumed(folder, end, random, work, ["train.npz", "test.npz", "toyviews.json"])


def soak_train(folder: Path, end: float, random: Random) -> dict[str, int]:
    pictures = save_pictures(folder / "pictures.npz")

    def work(place: Path, resume: bool) -> None:
        words = [
            "train",
            str(pictures),
            "--epochs",
            "3",
            "--threads",
            "1",
            "--save-every",
            "0.02",
            "--out",
            str(place),
        ]
        main([*words, *(["--resume"] if resume else [])])

    return soak_resumed(folder, end, random, work, ["last/model.safetensors"])


def soak_trials(folder: Path, end: float, random: Random) -> dict[str, int]:
    pictures = save_pictures(folder / "pictures.npz")

    def work(place: Path, resume: bool) -> None:
        words = ["trials", str(pictures), "--seeds", "2", "--epochs", "2", "--jobs", "1", "--out", str(place)]
        main(words)

    return soak_resumed(folder, end, random, work, ["*/last/model.safetensors"])


def soak_export(folder: Path, end: float, random: Random) -> dict[str, int]:
    """A folder of exported files is not there, or whole."""
    counts = tally()
    torch.manual_seed(0)
    model = capsnet.create_model("efficient_capsnet", (1, 20, 20), 3)
    out = folder / "onnx"
    while time.monotonic() < end:
        code = forked(partial(export_model, model, out), random.uniform(0, 15.0))
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
        shutil.rmtree(folder)
        folder.mkdir()
    return counts


WORK = {
    "save": soak_save,
    "data make": soak_make,
    "train": soak_train,
    "trials": soak_trials,
    "export": soak_export,
}


def run(seconds: float, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    results = {}
    with tempfile.TemporaryDirectory() as name:
        for number, (kind, work) in enumerate(WORK.items()):
            folder = Path(name) / str(number)
            folder.mkdir()
            results[kind] = work(folder, time.monotonic() + seconds * SHARES[kind], Random(f"{seed} {kind}"))
            print(kind, results[kind], flush=True)
    return {"sum": {key: sum(r[key] for r in results.values()) for key in tally()}, "work": results}
