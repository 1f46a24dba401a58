"""Every reader of files that strangers may have made: good files, how they are spoilt, and what reads them."""

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

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
from capsnet.export.metadata import FileCard
from capsnet.export.runtime import OnnxModel
from capsnet.export.write import export_model
from capsnet.models.base import CapsuleModel
from soak import mutate

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


def graph_readers(model: CapsuleModel, folder: Path) -> dict[str, Reader]:
    export_model(model, folder / "onnx")
    graph = (folder / "onnx" / "encoder.onnx").read_bytes()
    return {"onnx": Reader([graph], mutate.mutate_bytes, lambda p: OnnxModel(p, threads=1), "x.onnx", 0.02)}


def readers(folder: Path, *, graphs: bool = True) -> dict[str, Reader]:
    """Return every reader by name.

    Args:
        graphs: whether that of ONNX graphs too, whose good file takes some seconds to make.
    """
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
    metadata = json.dumps(FileCard(model.architecture, model.card, "encoder", "onnx").to_metadata())
    table = (
        b"file,label,split,group\na.png,cat,train,1\nb.png,dog,train,2\nc.png,cat,test,3\nd.png,dog,test,4\n"
    )
    picture = pictures()[0]
    around = dict.fromkeys(("a.png", "b.png", "c.png", "d.png"), picture)

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
        **(graph_readers(model, folder) if graphs else {}),
        "onnx metadata": Reader([metadata.encode()], metadata_text, metadata_of, "x.json", 0.03),
    }
