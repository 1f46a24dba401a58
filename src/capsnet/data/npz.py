"""One's own arrays: an .npz file with x_train, y_train and, else a fifth is set aside, x_test, y_test.

Pictures are (N, H, W), (N, H, W, C) or (N, C, H, W) with 1, 2 or 3 channels, bytes 0..255 or floats 0..1; labels are whole
numbers or names (N,), or one-hot (N, J). `class_names`, where it is there, names the classes 0, 1, ...

Nothing is unpickled, and an array's header is compared with what its place in the file can hold before it is allocated.
"""

import hashlib
import math
import sys
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capsnet.data.base import DataSet
from capsnet.data.files import MAX_EXPANSION
from capsnet.data.manifest import Entry, Manifest
from capsnet.data.own import Rule, divide, make_own
from capsnet.errors import CapsNetError, refuse_equal_classes

MAX_BYTES = 8 << 30
# What zipfile and NumPy raise for a damaged file; NumPy reads an array's header as Python's own syntax.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


def load_npz(
    path: Path, split: str = "content", split_seed: int = 0, manifest: Manifest | None = None
) -> DataSet:
    """Read the arrays into memory.

    Args:
        split: how a test part is set aside where there is none: by "content", or in the "order" that runs without a
            manifest used.
        split_seed: another number sets other pictures aside.
        manifest: a run's division to follow.
    """
    arrays = read_arrays(path, ("x_train", "y_train", "x_test", "y_test", "class_names"))
    for name in ("x_train", "y_train"):
        if name not in arrays:
            raise CapsNetError(
                f"{path} has no array {name}; it needs x_train and y_train, and may have x_test and y_test."
            )
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise CapsNetError(f"{path} has only one of x_test and y_test.")
    parts = ["train", "test"] if "x_test" in arrays else ["train"]
    labels = {part: _labels(path, f"y_{part}", arrays[f"y_{part}"]) for part in parts}
    names, labels = _classes(path, labels, arrays.get("class_names"))
    images = {part: _pictures(path, f"x_{part}", arrays[f"x_{part}"]) for part in parts}
    for part in parts:
        if len(images[part]) != len(labels[part]) or not len(images[part]):
            raise CapsNetError(
                f"{path} has {len(images[part])} pictures but {len(labels[part])} labels in '{part}'."
            )
    if len({_is_fractions(x) for part in parts if (x := arrays[f"x_{part}"]).dtype.kind == "f"}) > 1:
        raise CapsNetError(
            f"{path}: one of x_train and x_test has fractions 0 to 1, the other more; scale both alike."
        )
    if len({images[part].shape[1:] for part in parts}) > 1:
        raise CapsNetError(f"{path} has training and test pictures of different shapes.")
    present = set(labels["train"].tolist())
    for number, name in enumerate(names):
        if number not in present:
            raise CapsNetError(f"{path} has no training pictures of class '{name}'.")
    entries = [
        Entry(
            f"x_{part}[{n}]",
            names[label],
            "",
            part if len(parts) > 1 else "",
            hashlib.sha256(image.tobytes()).hexdigest(),
        )
        for part in parts
        for n, (image, label) in enumerate(zip(images[part], labels[part].tolist(), strict=True))
    ]
    rows = {entry.file: n for n, entry in enumerate(entries)}
    divided, changes = divide(entries, names, path, Rule(split, split_seed, manifest))
    pictures = torch.from_numpy(np.concatenate([images[part] for part in parts]))
    chosen = torch.tensor([rows[entry.file] for entry in divided], dtype=torch.long)
    return make_own(str(path), pictures[chosen], divided, names, changes=changes)


def read_arrays(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Those of the named arrays that the file has."""
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            present = set(archive.namelist())
            for name in names:
                if f"{name}.npy" in present:
                    arrays[name] = _read_array(path, archive, f"{name}.npy")
    except FileNotFoundError as error:
        raise CapsNetError(f"There is no file {path}.") from error
    except OSError as error:
        raise CapsNetError(f"{path} cannot be read: {error.strerror or error}.") from error
    except CapsNetError:
        raise
    except DAMAGE as error:
        raise CapsNetError(f"{path} is not a whole .npz file.") from error
    return arrays


def _read_array(path: Path, archive: zipfile.ZipFile, member: str) -> np.ndarray:
    info = archive.getinfo(member)
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        readers: dict[Any, Any] = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        if version not in readers:
            raise CapsNetError(f"{path} has an array of an unknown version in {member}.")
        shape, _, dtype = readers[version](file)
    if dtype.hasobject:
        raise CapsNetError(f"{path} holds Python objects in {member}, which are not read.")
    claimed = math.prod(shape) * dtype.itemsize
    if claimed > min(info.file_size, info.compress_size * MAX_EXPANSION, MAX_BYTES):
        raise CapsNetError(
            f"{path} claims {claimed} bytes for {member}, which is more than it can hold or may."
        )
    with archive.open(info) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    if dtype.kind == "U" and array.size and code_points(array).max() > sys.maxunicode:
        raise CapsNetError(f"{path} has text in {member} that is no Unicode.")
    return array


def code_points(text: np.ndarray) -> np.ndarray:
    """Return the numbers of an array's characters."""
    return np.ascontiguousarray(text.astype(text.dtype.newbyteorder("="))).reshape(-1).view(np.uint32)


def _pictures(path: Path, name: str, x: np.ndarray) -> np.ndarray:
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[3] in (1, 2, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim != 4 or x.shape[1] not in (1, 2, 3):
        raise CapsNetError(f"{path}: {name} has shape {x.shape}, which is not that of pictures.")
    if x.dtype == np.uint8 or not x.size:
        return np.ascontiguousarray(x, dtype=np.uint8)
    if x.dtype.kind not in "iufb" or not np.isfinite(x).all() or x.min() < 0 or x.max() > 255:
        raise CapsNetError(f"{path}: {name} has other values than bytes 0 to 255 or fractions 0 to 1.")
    if 1 < x.max() < 2:  # taken for bytes, such fractions would make black pictures
        raise CapsNetError(f"{path}: {name} has fractions up to {x.max():.6g}; they must lie in 0 to 1.")
    scale = 255 if _is_fractions(x) else 1
    return np.rint(x.astype(np.float32) * scale).astype(np.uint8)


def _is_fractions(x: np.ndarray) -> bool:
    return x.dtype.kind in "fb" and bool(x.max() <= 1)


def _labels(path: Path, name: str, y: np.ndarray) -> np.ndarray:
    if y.ndim == 2 and y.shape[1]:
        y = y[:, 0] if y.shape[1] == 1 else y.argmax(axis=1)
    if (
        y.ndim != 1
        or not y.size
        or y.dtype.kind not in "iufbU"
        or (y.dtype.kind == "f" and not (np.isfinite(y) & (y == np.rint(y)) & (abs(y) < 2**53)).all())
    ):
        raise CapsNetError(f"{path}: {name} has no labels: whole numbers or names, one for each picture.")
    return y.astype(np.int64) if y.dtype.kind != "U" else y


def _classes(
    path: Path, labels: dict[str, np.ndarray], names: np.ndarray | None
) -> tuple[list[str], dict[str, np.ndarray]]:
    """Class names, and labels from 0 up; without names the labels' own values are them."""
    values = np.unique(np.concatenate(list(labels.values())))
    if names is not None:
        known = [str(name) for name in names.ravel()]
        refuse_equal_classes(known, f" in '{path}'")
        if values.dtype.kind == "U" or values.min() < 0 or values.max() >= len(known):
            raise CapsNetError(
                f"{path} names {len(known)} classes, but its labels are not 0 to {len(known) - 1}."
            )
    else:
        known = [str(value) for value in values]
        labels = {part: np.searchsorted(values, y).astype(np.int64) for part, y in labels.items()}
    if len(known) < 2:
        raise CapsNetError(f"{path} has {len(known)} class; at least two are needed.")
    return known, labels
