"""From picture files to classes, prepared as the weights' own pre-processing says; any number of files, a batch at a time.

Letters: B batch, C x H x W image, J classes.
"""

import glob
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from capsnet.card import Card
from capsnet.data.listing import find_pictures
from capsnet.data.pictures import read_header, read_picture
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.reading import read_all
from capsnet.detection.detector import Detector
from capsnet.detection.measures import Evidence
from capsnet.errors import CapsNetError
from capsnet.registry import Architecture

LIKELY = 0.5  # the score that the best class must reach where no detector was calibrated
BLANK = "it is blank"
BATCH = 64


def find_reasons(
    detector: Detector | None, evidence: Evidence, pictures: UInt8[np.ndarray, "b c h w"]
) -> list[str | None]:
    """Return why each picture is probably none of the classes; None for those that are likely.

    Without a detector, which weights have when they were calibrated, the best score must reach `LIKELY`.
    """
    if detector is not None:
        reasons = detector.reasons(evidence)
    else:
        low = f"no class scores {LIKELY} or more"
        reasons = [None if best >= LIKELY else low for best in evidence.scores.max(axis=1).tolist()]
    return [reason if picture.any() else BLANK for reason, picture in zip(reasons, pictures, strict=True)]


def describe_scores(
    scores: Sequence[float], class_names: Sequence[str], reason: str | None, *, top: int | None = None
) -> dict[str, Any]:
    """One prediction: the best class, the scores by name, and whether to believe it.

    Args:
        reason: why the picture is probably none of the classes.
        top: only so many scores, the best first; all, in the order of the classes, when left out.
    """
    best = max(range(len(scores)), key=scores.__getitem__)
    order = range(len(scores)) if top is None else sorted(range(len(scores)), key=lambda n: -scores[n])[:top]
    return {
        "class": class_names[best],
        "score": scores[best],
        "scores": {class_names[n]: scores[n] for n in order},
        "likely": reason is None,
        "reason": reason,
    }


class Predictor(NamedTuple):
    """Weights that are ready to look at pictures. `look` says what they make of pictures in the stored form."""

    preprocessing: Preprocessing
    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    detector: Detector | None
    look: Callable[[UInt8[np.ndarray, "b c h w"]], Evidence]

    def read(self, file: Path) -> UInt8[np.ndarray, "c h w"]:
        return read_picture(file, self.preprocessing, self.image_shape)

    def describe(
        self, pictures: UInt8[np.ndarray, "b c h w"], *, top: int | None = None
    ) -> list[dict[str, Any]]:
        """Return a prediction for each picture."""
        evidence = self.look(pictures)
        reasons = find_reasons(self.detector, evidence, pictures)
        rows = zip(evidence.scores.tolist(), reasons, strict=True)
        return [describe_scores(scores, self.class_names, reason, top=top) for scores, reason in rows]


def predict_files(weights: str, files: Sequence[Path]) -> list[dict[str, Any]]:
    """A prediction for each picture file; one that cannot be read is an error. `weights` may be an exported .onnx file."""
    predictions = list(predict_all(weights, files))
    for prediction in predictions:
        if "error" in prediction:
            raise CapsNetError(prediction["error"])
    return predictions


def predict_all(
    weights: str, places: Sequence[Path], *, device: str = "auto", top: int | None = None
) -> Iterator[dict[str, Any]]:
    """Give a prediction for each picture, in order, or its `file` with an `error` where it cannot be read.

    Args:
        weights: a run folder, a weights folder, a bundled name, or an exported .onnx file, for which torch is not imported.
        places: files, folders with pictures at any depth, and patterns such as "photos/*.jpg".
        device: auto, cpu, cuda or mps.
        top: only so many scores of each.
    """
    if not places:
        raise CapsNetError("Name at least one picture.")
    predictor = open_predictor(weights, device)
    if top is not None and not 1 <= top <= len(predictor.class_names):
        raise CapsNetError(f"--top-k is 1 to {len(predictor.class_names)}, the number of classes; got {top}.")
    files = [file for place in places for file in _expand(place)]
    results = read_all(files, predictor.read, "predicting", lambda file: read_header(file).memory)
    while batch := list(islice(results, BATCH)):
        pictures = {n: picture for n, (_, picture) in enumerate(batch) if isinstance(picture, np.ndarray)}
        told = iter(predictor.describe(np.stack(list(pictures.values())), top=top) if pictures else [])
        for n, (file, picture) in enumerate(batch):
            if n in pictures:
                yield {"file": str(file), **next(told)}
            else:
                yield {"file": str(file), "error": str(picture)}


def _expand(place: Path) -> list[Path]:
    """The pictures in a folder or of a pattern; the place itself where there are none, which reading it then tells."""
    found = [place]
    if place.is_dir():
        found = find_pictures(place)
    elif glob.has_magic(str(place)) and not place.exists():
        # The folders that exist are meant by their names: "[new]" in one is no set of letters.
        folder = next(parent for parent in place.parents if parent.exists())
        names = glob.glob(str(place.relative_to(folder)), root_dir=folder, recursive=True)
        found = [path for name in sorted(names) if (path := folder / name).is_file()]
    return found or [place]


def open_predictor(weights: str, device: str = "auto") -> Predictor:
    """Open weights for predictions alone: without their data set, and without torch for an .onnx file or an export's folder."""
    encoder = Path(weights) / "encoder.onnx"
    weights = str(encoder) if encoder.is_file() else weights
    onnx = Path(weights).suffix == ".onnx"
    card, architecture, look = _open_onnx(weights, device) if onnx else _open_torch(weights, device)
    if not card.preprocessing:
        raise CapsNetError(f"The weights '{weights}' don't say how a picture is prepared for them.")
    preprocessing = Preprocessing.from_dict(card.preprocessing)
    return Predictor(
        preprocessing,
        architecture.image_shape,
        tuple(card.names_of(architecture.num_classes)),
        card.detector(architecture.num_classes),
        lambda pictures: look(preprocessing, pictures),
    )


Look = Callable[[Preprocessing, np.ndarray], Evidence]


def _open_torch(weights: str, device: str) -> tuple[Card, Architecture, Look]:
    import torch

    from capsnet.devices import choose_device
    from capsnet.evaluate.evidence import evidence_of, look
    from capsnet.saving import load

    where = choose_device(device)
    model = load(weights).to(where)

    @torch.inference_mode()
    def run(preprocessing: Preprocessing, pictures: np.ndarray) -> Evidence:
        images = preprocessing.apply(torch.from_numpy(pictures).to(where))
        if not model.card.detection:
            return Evidence(model(images).scores.cpu().numpy())
        return evidence_of(look(model, images), images)

    return model.card, model.architecture, run


def _open_onnx(weights: str, device: str) -> tuple[Card, Architecture, Look]:
    from capsnet.data.preprocessing_numpy import apply_numpy
    from capsnet.export.system import OnnxSystem

    if device not in ("auto", "cpu"):
        raise CapsNetError(f"ONNX files run on the CPU here, not on '{device}'; leave --device out.")
    system = OnnxSystem(weights)

    def run(preprocessing: Preprocessing, pictures: np.ndarray) -> Evidence:
        return system.look(apply_numpy(preprocessing, pictures))[1]

    return system.card, system.architecture, run
