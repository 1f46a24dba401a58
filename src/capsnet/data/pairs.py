"""Pairs of overlapping digits of different classes, made as they are needed: what MultiMNIST is (Sabour et al. 2017).

Each digit is padded to 36x36 and shifted by up to 4 pixels on both axes (`shift=6` is the authors' program, which cuts off
what leaves the image); the two are added and cut at white. Training pairs an image with a random one of another class from
its batch, ten times an epoch. The test pairs come from a fixed seed, one round of all images after the other, so that any
number of them is a stream in constant memory: the paper's set is 1000 pairs an image.

Letters: N images, B batch, J classes, S the side, 36.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Int, UInt8
from torch import Generator, Tensor
from torch.nn import functional as F

from capsnet.data.base import Batch, DataSet, Split
from capsnet.errors import CapsNetError

SIDE = 36
SEED = 2017


@dataclass(frozen=True)
class PairDataSet(DataSet):
    """Digits in pairs. A split holds the single digits.

    Attributes:
        shift: how far a digit moves on each axis.
        pairs: how many pairs each test image is the first digit of; other splits are evaluated with one.
    """

    shift: int = 4
    pairs: int = 10

    @property
    def test_images(self) -> int:
        return len(self.test.labels) * self.pairs

    def check_augmentation(self, name: str) -> None:
        """The pairs are the variation; there is no other."""
        if name != "none":
            raise CapsNetError(f"'{self.name}' varies its images by pairing them, not by '{name}'.")

    def training_batch(self, split: Split, augmentation: str, generator: Generator) -> Batch:
        """Each image with another of its batch; a batch of one class takes its partners from the training set."""
        pool = split if bool((split.labels != split.labels[0]).any()) else self.train
        partners = draw_partners(split.labels, pool.labels.to(split.labels.device), generator)
        shifts = draw_shifts(len(split.labels), self.shift, generator)
        return self.pair(split, pool.select(partners.to(pool.labels.device)), shifts)

    def evaluation_batches(self, split: Split, batch_size: int) -> Iterator[Batch]:
        """The fixed pairs of a split."""
        return self.test_pairs(split, self.pairs if split.images is self.test.images else 1, batch_size)

    def test_pairs(self, split: Split, pairs: int, batch_size: int, seed: int = SEED) -> Iterator[Batch]:
        """`pairs` rounds in each of which every image is once the first digit; the same for every batch size."""
        if not bool((split.labels != split.labels[0]).any()):
            raise CapsNetError("Pairs need images of at least two classes; these are all of one.")
        generator, n = Generator().manual_seed(seed), len(split.labels)
        labels = split.labels.cpu()
        for _ in range(pairs):
            partners = draw_partners(labels, labels, generator).to(split.labels.device)
            shifts = draw_shifts(n, self.shift, generator).to(split.labels.device)
            for rows in torch.arange(n, device=split.labels.device).split(batch_size):
                yield self.pair(split.select(rows), split.select(partners[rows]), shifts[rows])

    def pair(self, first: Split, second: Split, shifts: Int[Tensor, "b 2 2"]) -> Batch:
        """The overlaid images, both classes as targets, and each digit alone to reconstruct."""
        classes = torch.stack([first.labels, second.labels.to(first.labels.device)], dim=1)
        digits = torch.stack([first.images, second.images.to(first.images.device)], dim=1)
        originals = place(digits.flatten(0, 1), shifts.flatten(0, 1)).unflatten(0, (-1, 2))
        originals = originals.float() / self.preprocessing.divisor
        targets = F.one_hot(classes, self.num_classes).sum(dim=1).float()
        return Batch(originals.sum(dim=1).clamp_max(1.0), targets, classes, originals)


def draw_partners(labels: Int[Tensor, "b"], pool: Int[Tensor, "n"], generator: Generator) -> Int[Tensor, "b"]:
    """For each label an index into `pool`, uniform over all that have another label."""
    order = torch.argsort(pool, stable=True)
    counts = torch.bincount(pool, minlength=int(labels.max()) + 1)
    own, others = counts[labels], len(pool) - counts[labels]
    start = (counts.cumsum(0) - counts)[labels]
    draw = torch.rand(len(labels), generator=generator, dtype=torch.float64, device=generator.device)
    position = (draw * others).long().clamp(max=others - 1)
    # In the order of labels, one's own class is a gap to jump over.
    return order[torch.where(position >= start, position + own, position)]


def draw_shifts(n: int, most: int, generator: Generator) -> Int[Tensor, "n 2 2"]:
    """For each pair and digit, columns and rows to move by."""
    return torch.randint(-most, most + 1, (n, 2, 2), generator=generator, device=generator.device)


def place(
    digits: UInt8[Tensor, "b c h w"], shifts: Int[Tensor, "b 2"], side: int = SIDE
) -> UInt8[Tensor, "b c s s"]:
    """Each digit on a black square, off its middle by `shifts` (columns, rows); what leaves the square is cut off."""
    b, _, height, width = digits.shape
    columns = torch.arange(side, device=digits.device) - (side - width) // 2 - shifts[:, :1]
    rows = torch.arange(side, device=digits.device) - (side - height) // 2 - shifts[:, 1:]
    # Index 0 of the padded image is black: everything outside reads it.
    padded = F.pad(digits, (1, 0, 1, 0)).movedim(1, -1)
    columns = torch.where((columns >= 0) & (columns < width), columns + 1, 0)
    rows = torch.where((rows >= 0) & (rows < height), rows + 1, 0)
    batch = torch.arange(b, device=digits.device)[:, None, None]
    return padded[batch, rows[:, :, None], columns[:, None]].movedim(-1, 1)
