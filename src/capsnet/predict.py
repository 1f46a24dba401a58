"""From picture files to classes, prepared as the weights' own pre-processing says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from capsnet.data.pictures import read_picture
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError
from capsnet.saving import load

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
    """A prediction for each picture file."""
    if not files:
        raise CapsNetError("Name at least one picture.")
    model = load(weights)
    if not model.card.preprocessing:
        raise CapsNetError(f"The weights '{weights}' don't say how a picture is prepared for them.")
    preprocessing = Preprocessing.from_dict(model.card.preprocessing)
    pictures = [torch.from_numpy(read_picture(file, preprocessing, model.image_shape)) for file in files]
    names = model.card.class_names or tuple(str(n) for n in range(model.architecture.num_classes))
    with torch.inference_mode():
        scores = model(preprocessing.apply(torch.stack(pictures))).scores.tolist()
    return [
        {"file": str(file), **describe_scores(row, names, blank=not bool(picture.any()))}
        for file, picture, row in zip(files, pictures, scores, strict=True)
    ]
