"""Parts of a training set, drawn from a seed: what validation takes away, and what `--limit` leaves.

Letters: N images, J classes.
"""

import torch
from jaxtyping import Bool, Int
from torch import Generator, Tensor

from capsnet.data.base import Split
from capsnet.errors import CapsNetError

STRETCHES = 4
VALIDATION_SHARE = 0.1
VALIDATION_MOST = 5000


def default_validation_count(n: int) -> int:
    """A tenth of the training images, at most 5,000."""
    return min(VALIDATION_MOST, n // 10)


def split_validation(split: Split, count: int, seed: int) -> tuple[Split, Split]:
    """Return training and validation images, the latter with the classes in the same proportions; both in stored order."""
    return select_both(split, validation_rows(split.labels, count, seed))


def validation_rows(labels: Int[Tensor, "n"], count: int, seed: int) -> Bool[Tensor, "n"]:
    """Return which images to validate on, with the classes in the same proportions.

    Fewer validation images than classes are taken from the largest classes. A class is never taken whole.
    """
    n = len(labels)
    if not 0 <= count < n:
        raise CapsNetError(
            f"{count} of {n} images cannot be validation images; at least 0 and at most {n - 1} can."
        )
    held_out = torch.zeros(n, dtype=torch.bool)
    generator = Generator().manual_seed(seed)
    wanted = shares(torch.bincount(labels), count)
    for label, share in enumerate(wanted.tolist()):
        members = torch.nonzero(labels == label).flatten()
        order = torch.randperm(len(members), generator=generator)
        held_out[members[order[:share]]] = True
    return held_out


def stretch_rows(n: int, count: int, seed: int) -> Bool[Tensor, "n"]:
    """Return which of `n` images to validate on: whole stretches of the stored order, evenly apart.

    For images stored writer by writer, as MNIST's are: images held out one by one have others by the same hand among the
    training images, which the test images have not.
    """
    length = count // STRETCHES
    if not 0 < length < n // STRETCHES:
        raise CapsNetError(
            f"{count} of {n} images cannot be {STRETCHES} stretches of validation images; "
            f"at least {STRETCHES} and fewer than {n // STRETCHES * STRETCHES} can."
        )
    first = int(torch.randint(n // STRETCHES - length + 1, (1,), generator=Generator().manual_seed(seed)))
    starts = first + torch.arange(STRETCHES) * (n // STRETCHES)
    held_out = torch.zeros(n, dtype=torch.bool)
    held_out[(starts[:, None] + torch.arange(length)).flatten()] = True
    return held_out


def select_both(split: Split, held_out: Bool[Tensor, "n"]) -> tuple[Split, Split]:
    """Return the images that stay and those that are held out."""
    return split.select(torch.nonzero(~held_out).flatten()), split.select(torch.nonzero(held_out).flatten())


def shares(counts: Int[Tensor, "j"], total: int) -> Int[Tensor, "j"]:
    """`total` shared out in proportion to `counts` by largest remainder, each class keeping one where possible."""
    n = int(counts.sum())
    exact = counts.double() * total / max(n, 1)
    share = exact.floor().long()
    # The larger the remainder the sooner it rounds up; a class that would be emptied comes last.
    emptied = share + 1 >= counts
    order = torch.argsort(exact - share - 2.0 * emptied, descending=True, stable=True)
    while (left := total - int(share.sum())) > 0:
        open_classes = order[(share < counts)[order]]
        share[open_classes[:left]] += 1
    return share


def limit(split: Split, n: int | None, seed: int) -> Split:
    """The first `n` images of a seeded shuffle; all of them, as stored, for None."""
    return split if n is None else split.select(limited_rows(len(split.labels), n, seed))


def limited_rows(total: int, n: int, seed: int) -> Int[Tensor, "m"]:
    """Return which rows `limit` keeps, in its order."""
    if not 1 <= n <= total:
        raise CapsNetError(f"A limit of {n} images is not between 1 and the {total} there are.")
    return torch.randperm(total, generator=Generator().manual_seed(seed))[:n]
