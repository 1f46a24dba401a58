"""What all data of one's own has in common, wherever it was read from."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch

from capsnet.data.base import DataSet, Split
from capsnet.data.compose import Compose
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.splits import split_validation
from capsnet.errors import CapsNetError

DEFAULT_AUGMENTATION = ("shift", "rotate")
TEST_SHARE = 0.2


def make_own(name: str, train: Split, test: Split, class_names: Sequence[str]) -> DataSet:
    """A data set of pictures / 255, varied gently by default."""
    channels, height, width = train.images.shape[1:]
    preprocessing = Preprocessing("picture", 255.0)
    return DataSet(
        name=name,
        train=train,
        test=test,
        class_names=tuple(printable(name) for name in class_names),
        preprocessing=preprocessing,
        image_shape=(channels, height, width),
        augmentations={",".join(DEFAULT_AUGMENTATION): Compose(DEFAULT_AUGMENTATION, preprocessing)},
        digests={"train": split_digest(train), "test": split_digest(test)},
    )


def set_aside(split: Split, place: Path) -> tuple[Split, Split]:
    """Training and test images where there is no test part: a fifth of each class, the same every time."""
    counts = torch.bincount(split.labels)
    if int(counts.min()) < 2:
        raise CapsNetError(f"{place} has a class of only one picture: none is left to test on.")
    return split_validation(split, max(len(counts), round(TEST_SHARE * len(split.labels))), seed=0)


def split_digest(split: Split) -> str:
    """The SHA-256 of the pixels and labels."""
    digest = hashlib.sha256(split.images.contiguous().numpy().data)
    digest.update(split.labels.numpy().tobytes())
    return digest.hexdigest()


def printable(name: str) -> str:
    """A class name that JSON and terminals take; bytes of a file name that are no text become question marks."""
    return "".join(c if c.isprintable() else "?" for c in name.encode("utf-8", "replace").decode("utf-8"))
