"""What an analysis works on: opened weights, their test images, and a seeded choice of them.

Letters: N images, B batch, J classes, D pose size, C x H x W image.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from capsnet.data.base import Batch
from capsnet.errors import CapsNetError
from capsnet.models.base import Output
from capsnet.opening import OpenedWeights

BATCH = 64


def labels(subjects: Sequence["Subject"]) -> list[str]:
    """Return what to call each beside the others: its model's name, or that of its folder where two are of one model."""
    models = [subject.name for subject in subjects]
    folders = [Path(subject.weights).name for subject in subjects]
    choices = (models, folders, [subject.weights for subject in subjects])
    return next((names for names in choices if len(set(names)) == len(names)), models)


class Subject:
    """Opened weights on a device, and the test images that they are analysed with."""

    def __init__(self, opened: OpenedWeights, device: torch.device | str = "cpu") -> None:
        self.opened = opened
        self.weights = opened.weights
        self.dataset = opened.dataset
        self.device = torch.device(device)
        # Channels last is the convolutions' own layout.
        self.model = opened.model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    @property
    def name(self) -> str:
        return self.model.architecture.name

    def require_capsules(self) -> None:
        """Refuse networks whose `poses` are plain features."""
        with torch.inference_mode():
            poses = self.model(torch.zeros(1, *self.model.image_shape, device=self.device)).poses
        if poses.ndim != 3:
            raise CapsNetError(f"'{self.name}' has no class capsules to look at; choose a capsule network.")

    def require_decoder(self) -> None:
        if self.model.decoder is None:
            raise CapsNetError(f"The weights '{self.weights}' have no decoder, so they cannot reconstruct.")

    def choose(self, count: int | None, seed: int = 0) -> Tensor:
        """Return the indices of `count` test images from a seeded shuffle, in stored order; all of them for None."""
        n = len(self.dataset.test.labels)
        if count is None or count >= n:
            return torch.arange(n)
        if count < 1:
            raise CapsNetError(f"An analysis needs at least one image, not {count}.")
        return torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:count].sort().values

    def one_of_each(self, per_class: int = 1, seed: int = 0) -> Tensor:
        """Return the indices of `per_class` test images of each class, class by class."""
        labels = self.dataset.test.labels
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        of_class = (order[labels[order] == j][:per_class] for j in range(self.dataset.num_classes))
        return torch.cat(list(of_class))

    def batch(self, indices: Tensor) -> Batch:
        """Return some test images as one batch, as the model takes them."""
        batches = list(self.dataset.evaluation_batches(self.dataset.test.select(indices), len(indices)))
        return batches[0]

    def shown(self, images: Tensor) -> np.ndarray:
        """Turn model inputs or reconstructions (N, C, H, W) into pictures to look at: (N, 3, H, W') from 0 to 1.

        The pre-processing is undone. Ink, such as that of digits, is drawn dark on white and photographs as they are; stereo
        pairs are put side by side.
        """
        prepared = self.dataset.preprocessing
        x = images.detach().cpu().float()
        if prepared.per_image:
            low, high = x.amin(dim=(1, 2, 3), keepdim=True), x.amax(dim=(1, 2, 3), keepdim=True)
            x = (x - low) / (high - low).clamp_min(1e-6)
        else:
            if prepared.mean is not None and prepared.std is not None:
                x = x * x.new_tensor(prepared.std)[:, None, None] + x.new_tensor(prepared.mean)[:, None, None]
            x = x * (prepared.divisor / 255)
        x = x.clamp(0, 1)
        if prepared.kind == "digit" or prepared.light_on_dark:
            x = 1 - x
        if x.shape[1] != 3:
            x = torch.cat(list(x.split(1, dim=1)), dim=3).expand(-1, 3, -1, -1)
        return x.numpy()

    @torch.inference_mode()
    def run(self, images: Tensor, *, coupling: bool = False, batch: int = BATCH) -> Output:
        """Run the model on any number of prepared images; the output is on the CPU."""
        outputs = [self.model(part.to(self.device), coupling=coupling) for part in images.split(batch)]

        def joined(field: str) -> Tensor | None:
            parts = [getattr(output, field) for output in outputs]
            return None if parts[0] is None else torch.cat(parts).cpu()

        poses, scores = joined("poses"), joined("scores")
        assert poses is not None
        assert scores is not None
        return Output(poses, scores, joined("coupling"), joined("logits"))

    @torch.inference_mode()
    def reconstruct(self, poses: Tensor, classes: Tensor | None = None) -> Tensor:
        """Decode poses into pictures, on the CPU."""
        classes = classes.to(self.device) if classes is not None else None
        return self.model.reconstruct(poses.to(self.device), classes).cpu()
