"""Hostile files for every reader: each must be read or refused with the library's own error, soon and in little memory.

A reader works in a copy of this process that a watchdog ends when a file takes it more than ten seconds. What it raises beside
`CapsNetError` counts as a traceback, its death as a crash; both are kept with the number that makes the file again.
"""

import gzip
import io
import json
import mmap
import os
import resource
import struct
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import torch
from PIL import Image

import capsnet
from capsnet.card import Card
from capsnet.convert import from_keras
from capsnet.data import cifar10
from capsnet.data.idx import read_idx
from capsnet.data.listing import list_path
from capsnet.data.mnist import PREPROCESSING
from capsnet.data.norb_format import read_matrix
from capsnet.data.npz import load_npz
from capsnet.data.pictures import read_picture
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError
from capsnet.export.metadata import FileCard
from capsnet.export.runtime import OnnxModel
from capsnet.export.write import export_model
from soak import mutate
from soak.common import Bound, bounds, kill_group

HANG = 10.0
MOST_MEMORY = 1 << 30
CHUNK = 4000  # files that one copy of this process reads
COLOUR_KINDS = ("PNG", "JPEG", "WEBP", "TIFF")
COUNTS = ("files", "read", "refused", "tracebacks", "crashes", "hangs")
KEPT = 20  # failures of a reader that are told of
PHOTOGRAPH = Preprocessing(kind="picture", resize=(48, 48), divisor=255.0)


@dataclass
class Reader:
    """Good files, how they are spoilt, and what reads them.

    Attributes:
        share: of all files, or of the time; the slow readers get fewer.
        place: what a file is called, below a folder of its own.
    """

    seeds: Sequence[bytes]
    spoil: Callable[[bytes, Random], bytes]
    read: Callable[[Path], object]
    place: str
    share: float
    around: dict[str, bytes] = field(default_factory=dict)


def idx_file(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def norb_file(array: np.ndarray) -> bytes:
    magic = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}[array.dtype.name]
    sizes = [*array.shape, 1, 1, 1][: max(3, array.ndim)]
    return struct.pack(f"<ii{len(sizes)}i", magic, array.ndim, *sizes) + array.tobytes()


def npz_file(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def pictures() -> list[bytes]:
    random = np.random.default_rng(0)
    grey, colour = random.integers(0, 256, (40, 36), np.uint8), random.integers(0, 256, (40, 36, 3), np.uint8)
    made = []
    for array, kinds in (
        (grey, ("PNG", "JPEG", "GIF", "TIFF", "BMP", "PPM", "WEBP")),
        (colour, ("PNG", "JPEG", "WEBP", "TIFF")),
    ):
        for kind in kinds:
            for options in ({}, {"progressive": True}) if kind == "JPEG" else ({},):
                file = io.BytesIO()
                Image.fromarray(array).save(file, kind, **options)
                made.append(file.getvalue())
    file = io.BytesIO()
    Image.fromarray(grey.astype(np.uint16) * 200).save(file, "PNG")
    return [*made, file.getvalue()]


def cifar_archive() -> bytes:
    """An archive with members of every kind, none of them as large as the real ones."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for kind in (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE):
            member = tarfile.TarInfo(f"{cifar10.FOLDER}/data_batch_1.bin")
            member.type, member.linkname, member.mtime = kind, "x" * 120, 1.5
            member.size = 3000 if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(bytes(3000)))
    return file.getvalue()


def keras_file(folder: Path) -> bytes:
    """The smallest network that is converted, in the authors' layout."""
    from capsnet import convert

    model = capsnet.create_model("efficient_capsnet_multimnist", decoder=False)
    with h5py.File(folder / "x.h5", "w") as file:
        file.attrs["layer_names"] = [b"all"]
        group = file.create_group("all")
        slots = [*convert._learned(model), *convert._statistics(model)]
        group.attrs["weight_names"] = [f"a{n}".encode() for n in range(len(slots))]
        for n, slot in enumerate(slots):
            group.create_dataset(f"a{n}", data=np.full(slot.shape, 0.5, np.float32))
    return (folder / "x.h5").read_bytes()


def readers(folder: Path) -> dict[str, Reader]:
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (9, 20, 20), np.uint8), np.arange(9, dtype=np.uint8) % 3
    idx = [idx_file(images), idx_file(labels)]
    norb = [norb_file(images[:, None].repeat(2, 1)), norb_file(labels.astype(np.int32))]
    npz = [
        npz_file(x_train=images, y_train=labels, x_test=images, y_test=labels),
        npz_file(
            x_train=images[..., None], y_train=labels.astype(np.int64), class_names=np.array(["a", "b", "c"])
        ),
        npz_file(x_train=images, y_train=np.array(["x", "y", "z"] * 3)),
    ]
    torch.manual_seed(0)
    model = capsnet.create_model("efficient_capsnet", (1, 20, 20), 3)
    model.card = Card(
        ("a", "b", "c"), PREPROCESSING.to_dict(), {"dataset": "mnist"}, {"test_error_percent": 1.0}
    )
    capsnet.save(model, folder / "weights")
    config = (folder / "weights" / "config.json").read_bytes()
    tensors = (folder / "weights" / "model.safetensors").read_bytes()
    exported = export_model(model, folder / "onnx")
    onnx = (folder / "onnx" / "encoder.onnx").read_bytes()
    metadata = json.dumps(
        OnnxModel(folder / "onnx" / "encoder.onnx").session.get_modelmeta().custom_metadata_map
    )
    assert exported
    table = (
        b"file,label,split,group\na.png,cat,train,1\nb.png,dog,train,2\nc.png,cat,test,3\nd.png,dog,test,4\n"
    )
    picture = pictures()[0]
    around = dict.fromkeys(("a.png", "b.png", "c.png", "d.png"), picture)

    def load(path: Path) -> None:
        capsnet.load(path.parent)

    def json_text(content: bytes, random_: Random) -> bytes:
        return mutate.mutate_json(content.decode(), random_).encode()

    def metadata_of(path: Path) -> None:
        entries = json.loads(path.read_bytes())
        if isinstance(entries, dict):
            FileCard.from_metadata(
                {str(k): v if isinstance(v, str) else json.dumps(v) for k, v in entries.items()}, "x.onnx"
            )

    def metadata_text(content: bytes, random_: Random) -> bytes:
        """One of the entries, each of which is JSON in itself."""
        entries = json.loads(content)
        key = random_.choice(list(entries))
        try:
            entries[key] = mutate.mutate_json(entries[key], random_)
        except ValueError:
            entries[key] = "{"
        return json.dumps(entries).encode()

    return {
        "idx": Reader(idx, mutate.mutate_bytes, lambda p: read_idx(p), "x-idx", 0.13),
        "idx, packed": Reader(
            [gzip.compress(c) for c in idx], mutate.mutate_packed, lambda p: read_idx(p), "x.gz", 0.08
        ),
        "NORB": Reader(
            norb[:1], mutate.mutate_bytes, lambda p: read_matrix(p, ndim=4, dtype="u1"), "x.mat", 0.12
        ),
        "NORB, packed": Reader(
            [gzip.compress(norb[1])],
            mutate.mutate_packed,
            lambda p: read_matrix(p, ndim=1, dtype="i4"),
            "x.mat.gz",
            0.08,
        ),
        "npz": Reader(npz, mutate.mutate_zip, lambda p: load_npz(p), "x.npz", 0.1),
        "picture of a digit": Reader(
            pictures(),
            mutate.mutate_png,
            lambda p: read_picture(p, PREPROCESSING, (1, 28, 28)),
            "x.png",
            0.12,
        ),
        "photograph": Reader(
            pictures(), mutate.mutate_png, lambda p: read_picture(p, PHOTOGRAPH, (3, 48, 48)), "x.png", 0.12
        ),
        "table of pictures (CSV)": Reader(
            [table], mutate.mutate_bytes, lambda p: list_path(p), "x.csv", 0.1, around
        ),
        "archive of CIFAR-10": Reader(
            [cifar_archive()],
            mutate.mutate_tar,
            lambda p: cifar10.unpack(p, p.parent / "unpacked"),
            "x.tar.gz",
            0.05,
        ),
        "weights: config.json": Reader(
            [config],
            json_text,
            lambda p: capsnet.load(p.parent),
            "config.json",
            0.04,
            {"model.safetensors": tensors},
        ),
        "weights: safetensors": Reader(
            [tensors],
            mutate.mutate_safetensors,
            lambda p: capsnet.load(p.parent),
            "model.safetensors",
            0.04,
            {"config.json": config},
        ),
        "h5": Reader([keras_file(folder)], mutate.mutate_bytes, lambda p: from_keras(p), "x.h5", 0.02),
        "onnx": Reader([onnx], mutate.mutate_bytes, lambda p: OnnxModel(p, threads=1), "x.onnx", 0.02),
        "onnx metadata": Reader([metadata.encode()], metadata_text, metadata_of, "x.json", 0.03),
    }


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
    last, waited, looked = -1, 0.0, time.monotonic()
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return None if status == 0 else "crash"
        # Not the time between two looks: both processes may have been stopped in it.
        now = time.monotonic()
        waited, looked = waited + min(now - looked, 1.0), now
        if tally.get("begun") != last:
            last, waited = tally.get("begun"), 0.0
        elif waited > HANG:
            kill_group(pid)
            os.waitpid(pid, 0)
            return "hang"
        time.sleep(0.02)


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
