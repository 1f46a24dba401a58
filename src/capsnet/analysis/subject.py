"""What an analysis looks at: weights, the test images of a data set, and a seeded choice of them.

Letters: N images, B batch, J classes, D pose size, C x H x W image.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from capsnet.data import load_dataset
from capsnet.data.base import Batch, DataSet
from capsnet.devices import choose_device, set_threads
from capsnet.errors import CapsNetError
from capsnet.models.base import CapsuleModel, Output
from capsnet.saving import load
from capsnet.train.prepare import check_fits

BATCH = 64


@dataclass(frozen=True)
class Subject:
    """A model in evaluation mode, and the data set that it is looked at with."""

    weights: str
    model: CapsuleModel
    dataset: DataSet
    device: torch.device

    @property
    def name(self) -> str:
        return self.model.architecture.name

    def require_capsules(self) -> None:
        """Refuses networks whose `poses` are plain features."""
        with torch.inference_mode():
            poses = self.model(torch.zeros(1, *self.model.image_shape, device=self.device)).poses
        if poses.ndim != 3:
            raise CapsNetError(f"'{self.name}' has no class capsules to look at; choose a capsule network.")

    def require_decoder(self) -> None:
        if self.model.decoder is None:
            raise CapsNetError(f"The weights '{self.weights}' have no decoder, so they cannot reconstruct.")

    def choose(self, count: int | None, seed: int = 0) -> Tensor:
        """Indices of `count` test images from a seeded shuffle, in stored order; all of them for None."""
        n = len(self.dataset.test.labels)
        if count is None or count >= n:
            return torch.arange(n)
        if count < 1:
            raise CapsNetError(f"An analysis needs at least one image, not {count}.")
        return torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:count].sort().values

    def one_of_each(self, per_class: int = 1, seed: int = 0) -> Tensor:
        """`per_class` test images of each class, class by class."""
        labels = self.dataset.test.labels
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        of_class = (order[labels[order] == j][:per_class] for j in range(self.dataset.num_classes))
        return torch.cat(list(of_class))

    def batch(self, indices: Tensor) -> Batch:
        """Some test images as one batch, as the model takes them."""
        batches = list(self.dataset.evaluation_batches(self.dataset.test.select(indices), len(indices)))
        return batches[0]

    @torch.inference_mode()
    def run(self, images: Tensor, *, coupling: bool = False, batch: int = BATCH) -> Output:
        """The model's output for any number of prepared images, on the CPU."""
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
        """Pictures of poses, on the CPU."""
        classes = classes.to(self.device) if classes is not None else None
        return self.model.reconstruct(poses.to(self.device), classes).cpu()


def open_subject(
    weights: str,
    dataset: str | None = None,
    *,
    data_dir: Path | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Subject:
    """Reads weights and the data set named, or the one they were trained on."""
    set_threads(threads)
    where = choose_device(device)
    model = load(weights)
    name = dataset or model.card.provenance.get("dataset")
    if name is None:
        raise CapsNetError(f"The weights '{weights}' don't say what they were trained on; name a data set.")
    data = load_dataset(name, data_dir=data_dir)
    check_fits(model, data, weights)
    # Channels last is the convolutions' own layout.
    model.to(where, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Subject(weights, model, data, where)
