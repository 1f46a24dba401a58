"""Pictures that are there more than once: exactly, by their bytes, or nearly: recompressed, resized, brightened.

Two pictures are near duplicates when their grey 16 x 16 thumbnails, less their mean and divided by their deviation,
correlate above `ALIKE`. Flat pictures have nothing to compare and are near to none.

Letters: N images, K of them looked at, M of those not flat, C x H x W image.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from capsnet.data.reading import tell_progress

ALIKE = 0.998
THUMBNAIL = 16
FLAT = 2.0  # grey levels of deviation below which a thumbnail says nothing
BLOCK = 512
LUMA = (0.299, 0.587, 0.114)  # JPEG keeps less of the colours than of this mixture


def exact_duplicates(digests: Sequence[str]) -> list[list[int]]:
    """Return the rows of each content that is there more than once, in order."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, digest in enumerate(digests):
        rows[digest].append(row)
    return [same for same in rows.values() if len(same) > 1]


def near_duplicates(
    images: UInt8[Tensor, "n c h w"], splits: Sequence[str], rows: Int[Tensor, "k"] | None = None
) -> list[list[int]]:
    """Return clusters of `rows`, of all if none are given, that look alike; `splits` has the split of every row.

    Each picture is compared with all others, but linked only with the first of each split after it that is alike: enough
    to find whatever is on two sides, and bounded for a film whose every picture resembles the next.
    """
    thumbnails, rows = describe(images, torch.arange(len(images)) if rows is None else rows)
    names = sorted(set(splits))
    split = torch.tensor([names.index(splits[row]) for row in rows.tolist()])
    links = []
    for start in range(0, len(rows), BLOCK):
        block = thumbnails[start : start + BLOCK]
        alike = block @ thumbnails[start:].T >= ALIKE
        alike[:, : len(block)].triu_(1)
        tell_progress("comparing pictures", min(start + BLOCK, len(rows)), len(rows))
        if not alike.any():
            continue
        for number in range(len(names)):
            there = alike & (split[start:] == number)
            found, first = there.max(dim=1)
            for row in torch.nonzero(found).flatten().tolist():
                links.append((int(rows[start + row]), int(rows[start + int(first[row])])))
    return connected(links)


def describe(
    images: UInt8[Tensor, "n c h w"], rows: Int[Tensor, "k"]
) -> tuple[Float[Tensor, "m d"], Int[Tensor, "m"]]:
    """Return the standardised thumbnails of the rows that are not flat, and which those are."""
    parts = []
    for block in map(images.__getitem__, rows.split(BLOCK)):  # never a copy of all
        weights = torch.tensor(LUMA if block.shape[1] == 3 else [1 / block.shape[1]] * block.shape[1])
        grey = torch.einsum("nchw,c->nhw", block.float(), weights)[:, None]
        parts.append(F.adaptive_avg_pool2d(grey, (THUMBNAIL, THUMBNAIL)).flatten(1))
    thumbnails = torch.cat(parts) if parts else torch.zeros(0, THUMBNAIL**2)
    thumbnails = thumbnails - thumbnails.mean(dim=1, keepdim=True)
    length = thumbnails.norm(dim=1)
    uneven = torch.nonzero(length > FLAT * THUMBNAIL).flatten()
    return thumbnails[uneven] / length[uneven, None], rows[uneven]


def connected(links: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the clusters that the links make, each sorted."""
    cluster: dict[int, list[int]] = {}
    for a, b in links:
        one, other = cluster.setdefault(a, [a]), cluster.setdefault(b, [b])
        if one is not other:
            if len(one) < len(other):
                one, other = other, one
            one.extend(other)
            cluster.update(dict.fromkeys(other, one))
    unique = {id(members): members for members in cluster.values()}
    return sorted(sorted(members) for members in unique.values())
