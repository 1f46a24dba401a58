"""How often a model is wrong on a split, and by how much.

An image may hold K classes (two in MultiMNIST): the K best scores are the prediction. Then two errors are in use, which
differ by up to a factor of two, and both are given by name: the pair error (both classes must be right; Sabour et al.
2017) and the digit error (half credit for one of two; the program of Mazzia et al. 2021).

Letters: B batch, J classes, K classes in an image.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from capsnet.data.base import DataSet, Split
from capsnet.evaluate.mode import evaluating
from capsnet.evaluate.patches import average_patches, patch_batches
from capsnet.kernels import accelerated
from capsnet.models.base import CapsuleModel

BATCH = 64  # of MultiMNIST's images more take longer each: their maps are too large for the memory that is kept for reuse


@dataclass(frozen=True)
class Evaluation:
    """Counts over a split; `loss` is the mean classification loss."""

    images: int
    wrong_images: int
    wrong_classes: int
    classes_per_image: int
    loss: float

    @property
    def error_percent(self) -> float:
        """The share of images with anything wrong; with two classes per image, the pair error."""
        return round(100 * self.wrong_images / self.images, 6)

    @property
    def digit_error_percent(self) -> float:
        """The share of classes that were not found."""
        return round(100 * self.wrong_classes / (self.images * self.classes_per_image), 6)

    def named_errors(self, prefix: str = "") -> dict[str, float]:
        """Return the error, or the pair and the digit error, by name."""
        if self.classes_per_image == 1:
            return {f"{prefix}error_percent": self.error_percent}
        return {
            f"{prefix}pair_error_percent": self.error_percent,
            f"{prefix}digit_error_percent": self.digit_error_percent,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"images": self.images, "errors": self.wrong_images, **self.named_errors(), "loss": self.loss}


@torch.inference_mode()
def evaluate(
    model: CapsuleModel,
    dataset: DataSet,
    split: Split,
    *,
    batch_size: int = BATCH,
    patches: int = 1,
    on_batch: Callable[[int], None] | None = None,
    on_scores: Callable[[Tensor, Tensor], None] | None = None,
    shard: tuple[int, int] = (0, 1),
    add_up: Callable[[Sequence[float]], Sequence[float]] = tuple,
) -> Evaluation:
    """Run the model over the split in evaluation mode.

    Args:
        patches: crops of each image whose scores are averaged; 1 is the centre crop.
        on_batch: is called with the number of images of each batch.
        on_scores: is called with each batch's scores (B, J) and classes (B, K).
        shard: (process, processes), which take turns at the batches; `add_up` returns sums over all processes.
    """
    if not len(split.labels):
        raise ValueError("cannot evaluate an empty split")
    device = next(model.parameters()).device
    images, wrong_images, wrong_classes, k, loss = 0.0, 0.0, 0.0, 1, 0.0
    batches = (
        dataset.evaluation_batches(split, batch_size)
        if patches == 1
        else patch_batches(dataset, split, batch_size, patches)
    )
    with evaluating(model), accelerated(model):
        for turn, batch in enumerate(batches):
            b, k = batch.classes.shape
            if turn % shard[1] != shard[0]:
                continue
            output = model(batch.images.to(device))
            if patches > 1:
                output = average_patches(output, patches)
            targets = batch.targets.to(device)
            found = targets.gather(1, output.scores.topk(k, dim=1).indices).sum(dim=1)
            wrong_images += int((found < k).sum())
            wrong_classes += int((k - found).sum())
            loss += float(model.classification_loss(output, targets)) * b
            images += b
            if on_scores:
                on_scores(output.scores, batch.classes)
            if on_batch:
                on_batch(b)
    images, wrong_images, wrong_classes, loss = add_up([images, wrong_images, wrong_classes, loss])
    return Evaluation(int(images), int(wrong_images), int(wrong_classes), k, loss / images)
