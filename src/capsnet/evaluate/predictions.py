"""A run's scores on the test images, kept so that networks can be compared and averaged without running them again.

One file in the run folder, `predictions.safetensors`: `scores` (N, J) in 32 bits, so that no tie appears that was not
there, and the true `classes` (N, K), which tell whether two files are of the same images in the same order. MultiMNIST's
stream of millions is kept up to `MOST` images. A run that watches the test set has those of its best epoch on it in a second
file.

Letters: N images, J classes, K classes in an image.
"""

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor

from capsnet.data.base import DataSet, Split
from capsnet.errors import CapsNetError
from capsnet.evaluate.metrics import BATCH
from capsnet.evaluate.mode import evaluating
from capsnet.evaluate.patches import average_patches, patch_batches
from capsnet.files import atomic_write
from capsnet.kernels import accelerated
from capsnet.models.base import CapsuleModel

FILE = "predictions.safetensors"
BEST_ON_TEST = "predictions-best-on-test.safetensors"
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

    def write(self, folder: Path, file: str = FILE) -> None:
        """Write them into a run's folder."""
        tensors = {"scores": torch.cat(self.scores)[:MOST], "classes": torch.cat(self.classes)[:MOST]}
        atomic_write(folder / file, to_bytes(tensors))


def read_predictions(folder: Path, file: str = FILE) -> Predictions:
    """Read the predictions that a run kept."""
    try:
        tensors = load_file(folder / file)
        return Predictions(tensors["scores"], tensors["classes"].long())
    except FileNotFoundError:
        raise CapsNetError(
            f"{folder} has no {file}: it is not a finished run, or one of an older capsnet."
        ) from None
    except (SafetensorError, KeyError, OSError) as error:
        raise CapsNetError(f"'{folder / file}' is damaged: {error}.") from error


def predict_test(
    model: CapsuleModel, dataset: DataSet, *, batch_size: int = BATCH, patches: int = 1
) -> Predictions:
    """Return a model's scores on the whole test set, or on its first `MOST` images.

    Args:
        patches: average the scores over this many crops of each image, for cropped data sets.
    """
    return predict(model, dataset, dataset.test, batch_size=batch_size, patches=patches)


@torch.inference_mode()
def predict(
    model: CapsuleModel, dataset: DataSet, split: Split, *, batch_size: int = BATCH, patches: int = 1
) -> Predictions:
    """Return a model's scores on a split, or on its first `MOST` images."""
    device, recorder = next(model.parameters()).device, Recorder()
    batches = (
        dataset.evaluation_batches(split, batch_size)
        if patches == 1
        else patch_batches(dataset, split, batch_size, patches)
    )
    with evaluating(model), accelerated(model):
        for batch in batches:
            output = model(batch.images.to(device))
            recorder(average_patches(output, patches).scores if patches > 1 else output.scores, batch.classes)
            if recorder.room <= 0:
                break
    return recorder.predictions()
