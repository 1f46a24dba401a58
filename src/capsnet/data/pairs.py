"""Pairs of overlapping digits of different classes, made as they are needed: what MultiMNIST is (Sabour et al. 2017).

Each digit is padded to 36x36 and shifted by up to 4 pixels on both axes (6 in the authors' program, which cuts off what
leaves the image); the two are added and cut at white. Training pairs an image with a random one of another class from
its batch, ten times an epoch. The test pairs come from a fixed seed, one round of all images after the other, so that any
number of them is a stream in constant memory: the paper's set is 1000 pairs an image.

A curriculum is a matter of the augmentation, which a recipe may change on the way: `apart` overlaps less, `both` has pairs as
both protocols have them. A set of single digits in the same places (`digits=1`) trains a teacher that sees the two apart.

Letters: N images, B batch, J classes, K digits in an image, S the side, 36.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int, UInt8
from torch import Generator, Tensor
from torch.nn import functional as F

from capsnet.data.base import Batch, DataSet, Split
from capsnet.errors import CapsNetError

SIDE = 36
SEED = 2017
PROTOCOL_SHIFTS = {"sabour": 4, "authors": 6}


@dataclass(frozen=True)
class PairDataSet(DataSet):
    """Digits in pairs. A split holds the single digits.

    Attributes:
        shift: how far a digit moves on each axis.
        pairs: how many pairs each test image is the first digit of; other splits are evaluated with one.
        digits: 2, or 1 for every digit alone.
        one_place: a test image is at one place in all its pairs, as in the authors' program.
    """

    shift: int = 4
    pairs: int = 10
    digits: int = 2
    one_place: bool = False

    @property
    def test_images(self) -> int:
        return len(self.test.labels) * self.pairs

    def check_augmentation(self, name: str) -> None:
        """The pairs are the variation; only their places can be drawn in other ways."""
        if name not in PLACES:
            raise CapsNetError(
                f"'{self.name}' varies its images by pairing them ({', '.join(PLACES)}), not by '{name}'."
            )

    def training_batch(self, split: Split, augmentation: str, generator: Generator) -> Batch:
        """Each image with another of its batch; a batch of one class takes its partners from the training set."""
        n = len(split.labels)
        if self.digits == 1:
            return self.overlay([split], PLACES[augmentation](n, self.shift, generator)[:, :1])
        pool = split if bool((split.labels != split.labels[0]).any()) else self.train
        partners = draw_partners(split.labels, pool.labels.to(split.labels.device), generator)
        shifts = PLACES[augmentation](n, self.shift, generator)
        return self.overlay([split, pool.select(partners.to(pool.labels.device))], shifts)

    def evaluation_batches(self, split: Split, batch_size: int) -> Iterator[Batch]:
        """The fixed pairs of a split."""
        return self.test_pairs(split, self.pairs if split.images is self.test.images else 1, batch_size)

    def test_pairs(self, split: Split, pairs: int, batch_size: int, seed: int = SEED) -> Iterator[Batch]:
        """`pairs` rounds in each of which every image is once the first digit; the same for every batch size."""
        if not bool((split.labels != split.labels[0]).any()):
            raise CapsNetError("Pairs need images of at least two classes; these are all of one.")
        generator, n = Generator().manual_seed(seed), len(split.labels)
        labels, device = split.labels.cpu(), split.labels.device
        first = draw_shifts(n, self.shift, generator)[:, 0] if self.one_place else None
        for _ in range(pairs):
            partners = draw_partners(labels, labels, generator).to(device)
            shifts = draw_shifts(n, self.shift, generator)
            if first is not None:
                shifts[:, 0] = first
            shifts = shifts[:, : self.digits].to(device)
            for rows in torch.arange(n, device=device).split(batch_size):
                digits = [split.select(rows), split.select(partners[rows])][: self.digits]
                yield self.overlay(digits, shifts[rows])

    def overlay(self, digits: Sequence[Split], shifts: Int[Tensor, "b k 2"]) -> Batch:
        """The overlaid images, all classes as targets, and each digit alone to reconstruct."""
        device = digits[0].labels.device
        classes = torch.stack([part.labels.to(device) for part in digits], dim=1)
        alone = torch.stack([part.images.to(device) for part in digits], dim=1)
        originals = place(alone.flatten(0, 1), shifts.flatten(0, 1)).unflatten(0, (-1, len(digits)))
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


def draw_apart(n: int, most: int, generator: Generator) -> Int[Tensor, "n 2 2"]:
    """Shifts that take the two digits to opposite sides on both axes, each by at least half of the most."""
    device = generator.device
    far = torch.randint((most + 1) // 2, most + 1, (n, 2, 2), generator=generator, device=device)
    side = 2 * torch.randint(0, 2, (n, 2), generator=generator, device=device) - 1
    return far * torch.stack([side, -side], dim=1)


def draw_both(n: int, most: int, generator: Generator) -> Int[Tensor, "n 2 2"]:
    """Half of the pairs as in one protocol, half as in the other, whatever the most is."""
    near, far = (draw_shifts(n, shift, generator) for shift in PROTOCOL_SHIFTS.values())
    return torch.where((torch.arange(n, device=near.device) % 2 == 0)[:, None, None], near, far)


PLACES: dict[str, Callable[[int, int, Generator], Int[Tensor, "n 2 2"]]] = {
    "none": draw_shifts,
    "apart": draw_apart,
    "both": draw_both,
}


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
