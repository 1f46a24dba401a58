"""Metrics: how good a trained model is."""

from capsnet.evaluate.metrics import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
