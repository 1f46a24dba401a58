"""A run's scores on the test images, kept so that networks can be compared and averaged without running them again.

One file in the run folder, `predictions.safetensors`: `scores` (N, J) in 32 bits, so that no tie appears that was not
there, and the true `classes` (N, K), which tell whether two files are of the same images in the same order. MultiMNIST's
stream of millions is kept up to `MOST` images.

Letters: N images, J classes, K classes in an image.
"""

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor

from capsnet.data.base import DataSet
from capsnet.data.patches import patches as crop_patches
from capsnet.errors import CapsNetError
from capsnet.evaluate.metrics import BATCH
from capsnet.files import atomic_write
from capsnet.models.base import CapsuleModel

FILE = "predictions.safetensors"
MOST = 100_000


class Predictions(NamedTuple):
    """Scores (N, J) and true classes (N, K), in the test set's order."""

    scores: Tensor
    classes: Tensor

    def wrong(self) -> Tensor:
        """Return which images have anything wrong (N,): the K best scores are not the K classes."""
        k = self.classes.shape[1]
        found = self.scores.topk(k, dim=1).indices.sort(dim=1).values
        return (found != self.classes.sort(dim=1).values).any(dim=1)

    def wrong_classes(self) -> int:
        """Count the classes that were not found."""
        k = self.classes.shape[1]
        found = torch.zeros_like(self.scores).scatter_(1, self.scores.topk(k, dim=1).indices, 1.0)
        return int(self.classes.numel() - found.gather(1, self.classes).sum())

    def error_percent(self) -> float:
        """Return the share of images with anything wrong; with two classes per image, the pair error."""
        return round(100 * int(self.wrong().sum()) / len(self.classes), 6)

    def named_errors(self) -> dict[str, float]:
        """Return the error, or the pair and the digit error, by name."""
        if self.classes.shape[1] == 1:
            return {"error_percent": self.error_percent()}
        digits = round(100 * self.wrong_classes() / self.classes.numel(), 6)
        return {"pair_error_percent": self.error_percent(), "digit_error_percent": digits}

    def same_images(self, other: "Predictions") -> bool:
        """Tell whether both are of the same images, as far as their classes show."""
        return torch.equal(self.classes, other.classes)


class Recorder:
    """Collects the scores that `evaluate` computes, up to `MOST` images."""

    def __init__(self) -> None:
        self.scores: list[Tensor] = []
        self.classes: list[Tensor] = []
        self.room = MOST

    def __call__(self, scores: Tensor, classes: Tensor) -> None:
        if self.room > 0:
            self.scores.append(scores[: self.room].float().cpu())
            self.classes.append(classes[: self.room].to(torch.int16).cpu())
            self.room -= len(scores)

    def predictions(self) -> Predictions:
        return Predictions(torch.cat(self.scores), torch.cat(self.classes).long())

    def write(self, folder: Path) -> None:
        """Write them into a run's folder."""
        tensors = {"scores": torch.cat(self.scores)[:MOST], "classes": torch.cat(self.classes)[:MOST]}
        atomic_write(folder / FILE, to_bytes(tensors))


def read_predictions(folder: Path) -> Predictions:
    """Read the predictions that a run kept."""
    try:
        tensors = load_file(folder / FILE)
        return Predictions(tensors["scores"], tensors["classes"].long())
    except FileNotFoundError:
        raise CapsNetError(
            f"{folder} has no {FILE}: it is not a finished run, or one of an older capsnet."
        ) from None
    except (SafetensorError, KeyError, OSError) as error:
        raise CapsNetError(f"'{folder / FILE}' is damaged: {error}.") from error


@torch.inference_mode()
def predict_test(
    model: CapsuleModel, dataset: DataSet, *, batch_size: int = BATCH, patches: int = 1
) -> Predictions:
    """Return a model's scores on the whole test set, or on its first `MOST` images.

    Args:
        patches: average the scores over this many crops of each image, for cropped data sets.
    """
    model.eval()
    device, recorder = next(model.parameters()).device, Recorder()
    if patches > 1:
        for images, labels in zip(*(t.split(batch_size) for t in dataset.test), strict=True):
            crops = crop_patches(images, dataset.preprocessing, patches)
            scores = torch.stack([model(crop.to(device)).scores for crop in crops])
            recorder(scores.mean(dim=0), labels.unsqueeze(1))
        return recorder.predictions()
    for batch in dataset.evaluation_batches(dataset.test, batch_size):
        recorder(model(batch.images.to(device)).scores, batch.classes)
        if recorder.room <= 0:
            break
    return recorder.predictions()
