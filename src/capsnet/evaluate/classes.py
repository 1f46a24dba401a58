"""How well each class is told apart: the confusion matrix, and precision, recall and F1 of every class.

An image may hold K classes (two in MultiMNIST): the K best scores are the prediction. A confusion matrix needs K = 1.

Letters: N images, J classes, K classes in an image.
"""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from capsnet.errors import CapsNetError
from capsnet.evaluate.predictions import Predictions


class ClassScore(NamedTuple):
    """Of one class: how many images hold it, how many were said to, and how many of those rightly."""

    images: int
    predicted: int
    right: int

    @property
    def precision(self) -> float | None:
        """The share of its predictions that are right; None where it was never predicted."""
        return self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """The share of its images that were found; None where it has none."""
        return self.right / self.images if self.images else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall; None where neither is defined."""
        both = self.images + self.predicted
        return 2 * self.right / both if both else None


def class_scores(predictions: Predictions) -> list[ClassScore]:
    """Count images, predictions and hits of every class."""
    scores, classes = predictions
    truth = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, classes, True)
    best = scores.topk(classes.shape[1], dim=1).indices
    said = torch.zeros_like(truth).scatter_(1, best, True)
    counts = (truth.sum(dim=0), said.sum(dim=0), (truth & said).sum(dim=0))
    return [ClassScore(*map(int, row)) for row in zip(*counts, strict=True)]


def confusion_matrix(predictions: Predictions) -> Int[Tensor, "j j"]:
    """Count images by their class (rows) and the predicted class (columns)."""
    scores, classes = predictions
    if classes.shape[1] != 1:
        raise CapsNetError("A confusion matrix needs images of one class each.")
    j = scores.shape[1]
    return torch.bincount(classes[:, 0] * j + scores.argmax(dim=1), minlength=j * j).view(j, j)
