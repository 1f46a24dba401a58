"""From picture files to classes, prepared as the weights' own pre-processing says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capsnet.card import Card
from capsnet.data.pictures import read_picture
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError
from capsnet.registry import ImageShape

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


def predict_files(weights: str, files: Sequence[Path]) -> list[dict[str, Any]]:
    """A prediction for each picture file; `weights` may be an exported .onnx file, for which torch is not imported."""
    if not files:
        raise CapsNetError("Name at least one picture.")
    score = _scores_from_onnx if Path(weights).suffix == ".onnx" else _scores_from_torch
    scores, names = score(weights, files)
    return [
        {"file": str(file), **describe_scores(row, names, blank=not bool(picture.any()))}
        for file, picture, row in zip(files, pictures, scores, strict=True)
    ]


def read_pictures(
    weights: str, files: Sequence[Path], card: Card, image_shape: ImageShape
) -> tuple[Preprocessing, np.ndarray]:
    """The pictures in the stored form, and how they become the model's input."""
    if not card.preprocessing:
        raise CapsNetError(f"The weights '{weights}' don't say how a picture is prepared for them.")
    preprocessing = Preprocessing.from_dict(card.preprocessing)
    return preprocessing, np.stack([read_picture(file, preprocessing, image_shape) for file in files])


def _scores_from_torch(weights: str, files: Sequence[Path]) -> tuple[list[list[float]], Sequence[str]]:
    import torch

    from capsnet.saving import load

    model = load(weights)
    preprocessing, pictures = read_pictures(weights, files, model.card, model.image_shape)
    names = model.card.class_names or tuple(str(n) for n in range(model.architecture.num_classes))
    with torch.inference_mode():
        scores = model(preprocessing.apply(torch.from_numpy(pictures))).scores
    return scores.tolist(), names


def _scores_from_onnx(weights: str, files: Sequence[Path]) -> tuple[list[list[float]], Sequence[str]]:
    from capsnet.data.preprocessing_numpy import apply_numpy
    from capsnet.export.runtime import OnnxModel

    model = OnnxModel(weights)
    if model.part == "decoder":
        raise CapsNetError(
            f"'{weights}' makes pictures from capsules; predict needs encoder.onnx or model.onnx."
        )
    preprocessing, pictures = read_pictures(weights, files, model.card, model.image_shape)
    scores = model.run({"images": apply_numpy(preprocessing, pictures)})["scores"]
    return scores.tolist(), model.class_names
