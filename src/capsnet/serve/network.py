"""What the server asks of weights, whether torch computes them or ONNX Runtime. NumPy in, NumPy out.

Letters: B batch, J classes, D pose size, I capsules of the layer below, C x H x W image.
"""

from abc import ABC, abstractmethod
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

from capsnet.card import Card
from capsnet.data.preprocessing import Preprocessing
from capsnet.detection.measures import Evidence
from capsnet.errors import CapsNetError
from capsnet.registry import Architecture

# The data set whose every image holds two overlapping classes.
PAIRS = "multimnist"


class Computed(NamedTuple):
    """What a network says of a batch; `coupling` is None where it was not asked for or there is none. `evidence` is for telling
    pictures of none of the classes."""

    scores: Float[np.ndarray, "b j"]
    poses: Float[np.ndarray, "b ..."]
    coupling: Float[np.ndarray, "b j i"] | None = None
    evidence: Evidence | None = None


class Network(ABC):
    """Weights with what their card says about pictures and class names.

    Attributes:
        weights: what was opened, as it was given.
        has_decoder: whether `reconstruct` can be called.
        parameters: of the encoder; None where a file does not tell.
    """

    weights: str
    has_decoder: bool
    parameters: int | None

    def __init__(self, weights: str, card: Card, architecture: Architecture) -> None:
        if not card.preprocessing:
            raise CapsNetError(f"The weights '{weights}' don't say how a picture is prepared for them.")
        self.weights, self.card, self.name = weights, card, architecture.name
        self.preprocessing = Preprocessing.from_dict(card.preprocessing)
        self.image_shape = architecture.image_shape
        self.num_classes = architecture.num_classes
        self.class_names = card.names_of(self.num_classes)
        self.detector = card.detector(self.num_classes)

    @abstractmethod
    def compute(self, pictures: Real[np.ndarray, "b c h w"], *, coupling: bool = False) -> Computed:
        """Compute scores and poses from pictures of 0..255 as the data set stores them."""

    @abstractmethod
    def reconstruct(
        self, poses: Float[np.ndarray, "b ..."], classes: Int[np.ndarray, "b"]
    ) -> Float[np.ndarray, "b c h w"]:
        """Draw the pictures (0..1) of one class each."""

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of pictures before the pre-processing."""
        return self.image_shape[0], *(self.preprocessing.resize or self.image_shape[1:])

    @property
    def classes_per_image(self) -> int:
        """How many classes an image holds: two where the weights were trained on overlapping pairs."""
        told = self.card.provenance
        alone = told.get("dataset_options", {}).get("digits") == 1
        return 2 if told.get("dataset") == PAIRS and not alone else 1

    def probe(self) -> tuple[tuple[int, ...], int | None]:
        """Return the shape of poses and the number of capsules below, found by computing one blank picture."""
        computed = self.compute(np.zeros((1, *self.picture_shape), dtype=np.uint8), coupling=True)
        capsules = None if computed.coupling is None else computed.coupling.shape[2]
        return computed.poses.shape[1:], capsules

    def describe(self) -> dict[str, Any]:
        """Return what `/v1/model` and the page say; a data set that is a path gives its last part only."""
        dataset = self.card.provenance.get("dataset")
        pose_shape, input_capsules = self.probe()
        return {
            "name": self.name,
            "image_shape": list(self.image_shape),
            "picture_shape": list(self.picture_shape),
            "class_names": list(self.class_names),
            "classes_per_image": self.classes_per_image,
            "pose_shape": list(pose_shape),
            "has_capsules": has_capsules(pose_shape, self.num_classes),
            "input_capsules": input_capsules,
            "has_decoder": self.has_decoder,
            "encoder_parameters": self.parameters,
            "preprocessing": self.preprocessing.to_dict(),
            "dataset": PurePath(str(dataset)).name if dataset else None,
            "score": self.card.score,
        }


def has_capsules(pose_shape: tuple[int, ...], num_classes: int) -> bool:
    """Tell whether poses are one vector per class."""
    return len(pose_shape) == 2 and pose_shape[0] == num_classes


def is_exported(weights: str) -> bool:
    """Tell whether weights are a file or a folder that `capsnet export` wrote."""
    return Path(weights).suffix == ".onnx" or (Path(weights) / "encoder.onnx").is_file()


def open_network(weights: str, threads: int | None = None) -> Network:
    """Open weights for serving; torch is not imported for exported files. `threads=None` uses all cores."""
    if is_exported(weights):
        from capsnet.serve.onnx_network import OnnxNetwork

        return OnnxNetwork(weights, threads)
    from capsnet.serve.torch_network import TorchNetwork

    return TorchNetwork(weights, threads)
