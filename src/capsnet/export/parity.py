"""Does a file compute what torch computes? It is compared before it is kept.

Each output of each image is compared on its own: the largest difference as a share of that output's largest value.

Letters: N images, C x H x W image.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from capsnet.errors import CapsNetError
from capsnet.export.names import CLASSES, COUPLING, IMAGES, PARTS, POSES, RECONSTRUCTION, SCORES
from capsnet.export.runtime import open_session
from capsnet.models.base import CapsuleModel

TOLERANCE = 1e-4


@torch.inference_mode()
def torch_outputs(
    model: CapsuleModel, images: Float[Tensor, "n c h w"], *, coupling: bool = False
) -> dict[str, np.ndarray]:
    """Return what the files should compute, and the class that each image is reconstructed from."""
    output = model(images, coupling=coupling)
    classes = output.scores.argmax(dim=1)
    outputs = {SCORES: output.scores, POSES: output.poses, CLASSES: classes}
    if model.decoder is not None:
        outputs[RECONSTRUCTION] = model.reconstruct(output.poses, classes)
    if output.coupling is not None:
        outputs[COUPLING] = output.coupling
    if model.card.detection and output.parts is not None:
        outputs[PARTS] = output.parts
    return {name: tensor.numpy() for name, tensor in outputs.items()}


def relative_difference(got: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest over all images of (largest difference / largest value) within an image; infinite if not finite."""
    if got.shape != expected.shape or not np.isfinite(got).all():
        return float("inf")
    axes = tuple(range(1, expected.ndim))
    difference = np.abs(got.astype(np.float64) - expected).max(axis=axes)
    largest = np.abs(expected).max(axis=axes)
    return float((difference / np.maximum(largest, np.finfo(np.float32).tiny)).max())


def compare(file: bytes, expected: dict[str, np.ndarray], images: np.ndarray) -> dict[str, float]:
    """Return how far each output of a file is from torch's, for all images at once and for the first one alone."""
    session = open_session(file)
    known = {**expected, IMAGES: images}
    outputs = [item.name for item in session.get_outputs()]
    worst = dict.fromkeys(outputs, 0.0)
    for count in (len(images), 1):
        inputs = {item.name: known[item.name][:count] for item in session.get_inputs()}
        for name, got in zip(outputs, session.run(None, inputs), strict=True):
            worst[name] = max(worst[name], relative_difference(got, expected[name][:count]))
    return worst


def check(differences: dict[str, dict[str, float]], model_name: str) -> None:
    """Refuse files that differ from torch by more than the tolerance."""
    for part, outputs in differences.items():
        for name, difference in outputs.items():
            if not difference <= TOLERANCE:
                raise CapsNetError(
                    f"{model_name} is not exported: the {name} of {part}.onnx differ from torch's by {difference:.1e} "
                    f"of their largest value, and at most {TOLERANCE:.0e} is accepted."
                )
