"""Counts per class, against scikit-learn's and against a pair worked out by hand."""

import pytest
import torch

from capsnet.errors import CapsNetError
from capsnet.evaluate.classes import class_scores, confusion_matrix
from capsnet.evaluate.predictions import Predictions


def test_scores_and_matrix_equal_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(200, 5, generator=generator)
    classes = torch.randint(4, (200, 1), generator=generator)  # class 4 has no image
    predictions = Predictions(scores, classes)
    truth, said = classes[:, 0].numpy(), scores.argmax(dim=1).numpy()
    expected = metrics.confusion_matrix(truth, said, labels=range(5))
    assert confusion_matrix(predictions).tolist() == expected.tolist()
    found = class_scores(predictions)
    precision, recall, f1, support = metrics.precision_recall_fscore_support(
        truth, said, labels=range(5), zero_division=0
    )
    assert [s.images for s in found] == support.tolist()
    assert [s.precision for s in found] == pytest.approx(precision.tolist())
    assert [s.recall or 0 for s in found] == pytest.approx(recall.tolist())
    assert [s.f1 for s in found] == pytest.approx(f1.tolist())


def test_a_class_without_images_has_no_recall_and_one_never_predicted_no_precision():
    predictions = Predictions(torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]]), torch.tensor([[0], [1]]))
    one, two, three = class_scores(predictions)
    assert (one.precision, one.recall) == (0.5, 1.0)
    assert (two.precision, two.recall, two.f1) == (None, 0.0, 0.0)
    assert (three.precision, three.recall, three.f1) == (None, None, None)


def test_images_of_two_classes_count_each_class():
    predictions = Predictions(torch.tensor([[0.9, 0.8, 0.1]]), torch.tensor([[0, 2]]))
    assert [tuple(score) for score in class_scores(predictions)] == [(1, 1, 1), (0, 1, 0), (1, 0, 0)]
    with pytest.raises(CapsNetError, match="one class each"):
        confusion_matrix(predictions)
