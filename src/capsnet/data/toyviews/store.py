"""toyviews on disk: `train.npz`, `test.npz` and `toyviews.json`, which holds seed, version, sizes and
digests.

Nothing is unpickled, and no array is read before its file's digest and its announced shape have been checked.
"""

import hashlib
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from capsnet.data.toyviews.design import SPLITS
from capsnet.errors import CapsNetError

VERSION = 1  # of the pictures: another version, other bytes
MANIFEST = "toyviews.json"
MEMBERS = ("images", "labels", "info")
Arrays = dict[str, NDArray[np.uint8]]


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_arrays(path: Path, arrays: Arrays) -> None:
    """An .npz whose bytes depend on the arrays only: a member opened by its name keeps no date."""
    # Level 1 halves the size; level 6 takes four times as long for another seventh.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        for split in SPLITS:
            int(manifest["splits"][split]["pairs"]), str(manifest["splits"][split]["sha256"])
        int(manifest["seed"]), int(manifest["version"]), int(manifest["size"])
    except FileNotFoundError:
        raise CapsNetError(
            f"toyviews is not in {folder}: run `capsnet data make toyviews` to generate it there."
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise _damaged(path) from None
    return dict(manifest)


def load(folder: str | Path, splits: Sequence[str] = SPLITS) -> dict[str, Arrays]:
    """For each split: images (n, 2, 96, 96), left eye first, labels (n,) and info (n, 4), all uint8.

    info columns: instance, elevation 0..8, azimuth 0, 2, .. 34, lighting 0..5. Digests are checked.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    return {split: _read_split(folder, split, manifest) for split in splits}


def _read_split(folder: Path, split: str, manifest: dict[str, Any]) -> Arrays:
    path = folder / f"{split}.npz"
    pairs, size = int(manifest["splits"][split]["pairs"]), int(manifest["size"])
    shapes = {"images": (pairs, 2, size, size), "labels": (pairs,), "info": (pairs, 4)}
    try:
        if digest(path) != manifest["splits"][split]["sha256"]:
            raise _damaged(path)
        with zipfile.ZipFile(path) as archive:
            arrays = {}
            for name in MEMBERS:
                with archive.open(f"{name}.npy") as member:
                    arrays[name] = _read_array(member, shapes[name])
            return arrays
    except FileNotFoundError:
        raise CapsNetError(
            f"{path} of toyviews is missing: run `capsnet data make toyviews` to generate it again."
        ) from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise _damaged(path) from None


def _read_array(member: IO[bytes], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    version = np.lib.format.read_magic(member)
    if version != (1, 0):
        raise ValueError("not the version that write_arrays writes")
    announced, fortran, dtype = np.lib.format.read_array_header_1_0(member)
    if announced != shape or fortran or dtype != np.uint8:
        raise ValueError("not the shape that the manifest gives")
    array = np.empty(shape, dtype=np.uint8)
    flat, done = array.reshape(-1), 0
    while done < len(flat):
        chunk = member.read(min(len(flat) - done, 1 << 22))
        if not chunk:
            raise EOFError
        flat[done : done + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
        done += len(chunk)
    return array


def _damaged(path: Path) -> CapsNetError:
    return CapsNetError(
        f"{path} of toyviews is damaged: delete it and run `capsnet data make toyviews` to generate it again."
    )
