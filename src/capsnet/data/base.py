"""What a data set is: tensors in memory, how they become a model's input, and how a training batch is made.

Letters: N training images, M test images, B batch, C x H x W image, J classes, K pictures to reconstruct from one image (1;
2 in MultiMNIST).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from capsnet.data.compose import OPERATIONS, Compose, parse_operations, unknown_operation
from capsnet.data.manifest import Changes, Entry
from capsnet.data.mixing import MIXUP, mixup, without_mixup
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import refuse_equal_classes, unknown_name


class Split(NamedTuple):
    """Pictures as stored, and their classes."""

    images: UInt8[Tensor, "n c h w"]
    labels: Int[Tensor, "n"]

    def select(self, indices: Int[Tensor, "m"]) -> "Split":
        """The given rows, in the given order."""
        return Split(self.images[indices], self.labels[indices])


class Batch(NamedTuple):
    """What a training or evaluation step takes."""

    images: Float[Tensor, "b c h w"]
    targets: Float[Tensor, "b j"]
    classes: Int[Tensor, "b k"]
    originals: Float[Tensor, "b k c h w"]


# Takes pictures as stored and gives a model's input, varied at random by the generator alone.
Augmentation = Callable[[UInt8[Tensor, "b c h w"], torch.Generator], Float[Tensor, "b c2 h2 w2"]]


@dataclass(frozen=True)
class DataSet:
    """A data set in memory.

    `augmentations` are the ways to vary training images by name; the first is the default. Beside them
    there are always "none" and lists of operations such as "shift,rotate" (`capsnet.data.compose`).
    `digests` are the SHA-256 of the files read, for a run's record. `views` is how often an epoch shows each image.
    `groups` has the ways to group the training images, by name ("writers", "objects"): the number of each image's group, so
    that validation can hold out whole groups; `test_groups` those of the test images, for what is said about its errors.

    Your own pictures (`capsnet.data.own`) also have `units`, what each training image must stay together with when it is
    held out; `manifest`, the files of the training, validation and test images in this order; `changes` since the
    manifest that they were read by; and `validation`, where the data bring a part to select on.
    """

    name: str
    train: Split
    test: Split
    class_names: tuple[str, ...]
    preprocessing: Preprocessing
    image_shape: tuple[int, int, int]
    augmentations: Mapping[str, Augmentation] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    views: int = 1
    groups: Mapping[str, Int[Tensor, "n"]] = field(default_factory=dict)
    test_groups: Mapping[str, Int[Tensor, "m"]] = field(default_factory=dict)
    validation: Split | None = None
    units: tuple[str, ...] = ()
    manifest: tuple[Entry, ...] = ()
    changes: Changes | None = None

    def __post_init__(self) -> None:
        refuse_equal_classes(self.class_names, f" in '{self.name}'")

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def test_images(self) -> int:
        """How many images the test set makes."""
        return len(self.test.labels)

    def check_augmentation(self, name: str) -> None:
        """Refuses a way to vary images that this data set does not have."""
        self.get_augmentation(without_mixup(name)[0])

    def get_augmentation(self, name: str) -> Augmentation | None:
        """One of `augmentations`, or a list of `capsnet.data.compose.OPERATIONS` such as "shift,rotate"; "none" is None."""
        if name in self.augmentations:
            return self.augmentations[name]
        if name == "none":
            return None
        operations = parse_operations(name)
        if operations is None:
            known = {*self.augmentations, "none", *OPERATIONS, MIXUP}
            raise unknown_name("augmentation", unknown_operation(name), known, f"for '{self.name}'")
        return Compose(operations, self.preprocessing)

    def training_batch(self, split: Split, augmentation: str, generator: torch.Generator) -> Batch:
        """A batch varied at random; the picture to reconstruct is the varied one. With "mixup" in the list, images are mixed
        after everything else."""
        name, mixed = without_mixup(augmentation)
        augment = self.get_augmentation(name)
        images = augment(split.images, generator) if augment else self.preprocessing.apply(split.images)
        batch = self.batch(images, split.labels)
        return Batch(*mixup(*batch, generator)) if mixed else batch

    def evaluation_batches(self, split: Split, batch_size: int) -> Iterator[Batch]:
        """The split as it is, in order, a batch at a time."""
        for images, labels in zip(
            split.images.split(batch_size), split.labels.split(batch_size), strict=True
        ):
            yield self.batch(self.preprocessing.apply(images), labels)

    def batch(self, images: Float[Tensor, "b c h w"], labels: Int[Tensor, "b"]) -> Batch:
        targets = F.one_hot(labels, self.num_classes).to(images.dtype)
        return Batch(images, targets, labels.unsqueeze(1), images.unsqueeze(1))
