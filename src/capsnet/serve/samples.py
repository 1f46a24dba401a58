"""Test images to begin with: what the playground offers beside one's own drawing."""

import torch

from capsnet.data import list_datasets
from capsnet.data.base import Split
from capsnet.errors import CapsNetError
from capsnet.serve.engine import Engine, to_pixels
from capsnet.serve.messages import Drawing


class Samples:
    """The test images of the weights' own data set, read when first asked for.

    Only named data sets that are on this machine: nothing is downloaded, and a user's own pictures are not published.
    """

    def __init__(self, engine: Engine) -> None:
        told = engine.opened.trained_on
        known = {info.name for info in list_datasets()}
        self.name = told.dataset if told and told.dataset in known and engine.opened.data_is_here else None
        self._opened = engine.opened
        self.class_names = engine.class_names
        self._shape = (engine.model.image_shape[0], *engine.stored_size)
        self._test: Split | None = None

    def draw(self, count: int, seed: int) -> list[Drawing] | None:
        """Images of as many classes as there are, in the order of the classes; None when there is no data set."""
        if self.name is None:
            return None
        if self._test is None:
            try:
                self._test = self._opened.dataset.test
            except CapsNetError:  # the data set has changed, and no longer fits
                self.name = None
                return None
        if tuple(self._test.images.shape[1:]) != self._shape:
            return None
        labels = self._test.labels
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        rounds = -(-count // len(self.class_names))
        each = [order[labels[order] == k][:rounds] for k in range(len(self.class_names))]
        rows = torch.stack([row[n] for n in range(rounds) for row in each if n < len(row)])[:count]
        chosen = self._test.select(rows)
        return [
            Drawing(self.class_names[k], image)
            for image, k in zip(to_pixels(chosen.images.float() / 255), chosen.labels.tolist(), strict=True)
        ]
