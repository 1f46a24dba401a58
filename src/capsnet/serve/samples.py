"""Test images to begin with: what the playground offers beside one's own pictures."""

from typing import TYPE_CHECKING

import numpy as np

from capsnet.data.preprocessing_numpy import resampling
from capsnet.errors import CapsNetError
from capsnet.serve.network import Network

if TYPE_CHECKING:
    from capsnet.data.base import Split
    from capsnet.opening import OpenedWeights


class Samples:
    """The test images of the weights' own data set, read when first asked for.

    Only named data sets that are on this machine: nothing is downloaded, and a user's own pictures are not published.
    Exported files know of no data set.
    """

    def __init__(self, network: Network, opened: "OpenedWeights | None" = None) -> None:
        self._opened = opened or getattr(network, "opened", None)
        self.name = _name_of(self._opened)
        self._network = network
        self._test: Split | None = None

    def draw(self, count: int, seed: int) -> list[tuple[str, np.ndarray]] | None:
        """Return classes and images of as many classes as there are, in their order; None when there is no data set."""
        if self.name is None or self._opened is None:
            return None
        if self._test is None:
            try:
                self._test = self._opened.dataset.test
            except CapsNetError:  # the data set has changed, and no longer fits
                self.name = None
                return None
        import torch

        names = self._network.class_names
        labels = self._test.labels
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        rounds = -(-count // len(names))
        each = [order[labels[order] == k][:rounds] for k in range(len(names))]
        rows = torch.stack([row[n] for n in range(rounds) for row in each if n < len(row)])[:count]
        chosen = self._test.select(rows)
        images = chosen.images.numpy()
        if self._network.classes_per_image == 1:  # the page lays two single digits over each other by itself
            images = resized(images, self._network.picture_shape[1:])
        return [(names[k], image) for image, k in zip(images, chosen.labels.tolist(), strict=True)]


def _name_of(opened: "OpenedWeights | None") -> str | None:
    """The name of the data set, if it has one and is here."""
    told = opened.trained_on if opened is not None else None
    if opened is None or told is None:
        return None
    from capsnet.data import list_datasets

    known = {info.name for info in list_datasets()}
    return told.dataset if told.dataset in known and opened.data_is_here else None


def resized(images: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Bring stored pictures to the size that the pre-processing brings them to."""
    if images.shape[-2:] == size:
        return images
    rows, columns = (resampling(n, m) for n, m in zip(images.shape[-2:], size, strict=True))
    return np.clip(np.rint(rows @ images.astype(np.float32) @ columns.T), 0, 255).astype(np.uint8)
