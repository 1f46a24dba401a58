"""From picture files to classes, prepared as the weights' own pre-processing says."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capsnet.card import Card
from capsnet.data.pictures import read_picture
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError
from capsnet.registry import Architecture

LIKELY = 0.5  # the score that the best class must reach


def describe_scores(
    scores: Sequence[float], class_names: Sequence[str], *, blank: bool = False
) -> dict[str, Any]:
    """One prediction: the best class, all scores by name, and whether to believe it: not on a `blank` sheet."""
    best = max(range(len(scores)), key=scores.__getitem__)
    return {
        "class": class_names[best],
        "score": scores[best],
        "scores": dict(zip(class_names, scores, strict=True)),
        "likely": scores[best] >= LIKELY and not blank,
    }


# Gives the scores of pictures in the stored form, (N, C, H, W) uint8.
Scorer = Callable[[Preprocessing, np.ndarray], list[list[float]]]


def predict_files(weights: str, files: Sequence[Path]) -> list[dict[str, Any]]:
    """A prediction for each picture file; `weights` may be an exported .onnx file, for which torch is not imported."""
    if not files:
        raise CapsNetError("Name at least one picture.")
    card, architecture, score = (_open_onnx if Path(weights).suffix == ".onnx" else _open_torch)(weights)
    if not card.preprocessing:
        raise CapsNetError(f"The weights '{weights}' don't say how a picture is prepared for them.")
    preprocessing = Preprocessing.from_dict(card.preprocessing)
    pictures = np.stack([read_picture(file, preprocessing, architecture.image_shape) for file in files])
    names = card.names_of(architecture.num_classes)
    return [
        {"file": str(file), **describe_scores(row, names, blank=not bool(picture.any()))}
        for file, picture, row in zip(files, pictures, score(preprocessing, pictures), strict=True)
    ]


def _open_torch(weights: str) -> tuple[Card, Architecture, Scorer]:
    import torch

    from capsnet.saving import load

    model = load(weights)

    def score(preprocessing: Preprocessing, pictures: np.ndarray) -> list[list[float]]:
        with torch.inference_mode():
            scores: list[list[float]] = model(preprocessing.apply(torch.from_numpy(pictures))).scores.tolist()
        return scores

    return model.card, model.architecture, score


def _open_onnx(weights: str) -> tuple[Card, Architecture, Scorer]:
    from capsnet.data.preprocessing_numpy import apply_numpy
    from capsnet.export.runtime import OnnxModel

    model = OnnxModel(weights)
    if model.part == "decoder":
        raise CapsNetError(
            f"'{weights}' makes pictures from capsules; predict needs encoder.onnx or model.onnx."
        )

    def score(preprocessing: Preprocessing, pictures: np.ndarray) -> list[list[float]]:
        scores: list[list[float]] = model.run({"images": apply_numpy(preprocessing, pictures)})[
            "scores"
        ].tolist()
        return scores

    return model.card, model.architecture, score
