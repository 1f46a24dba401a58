"""A network that is ready to answer: whole batches of requests in, answers out.

Letters: N images of one request, B of a batch, J classes, D pose size, C x H x W image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import msgspec
import numpy as np
from jaxtyping import Float, Int, Real

from capsnet.detection.measures import Evidence
from capsnet.predict import describe_scores, find_reasons
from capsnet.serve.batching import Sized
from capsnet.serve.messages import Drawing, Prediction
from capsnet.serve.network import Network, has_capsules, open_network

DIGITS = 6  # more than a float32 pose needs to give the same picture


@dataclass
class Question(Sized):
    """Pictures of 0..255, what is wanted besides the scores, and how many classes to reconstruct."""

    pictures: Real[np.ndarray, "n c h w"]
    include: frozenset[str] = frozenset()
    top: int = 1

    def __post_init__(self) -> None:
        self.images = len(self.pictures)


@dataclass
class Poses(Sized):
    """Poses (N, J, D), or whatever the decoder reads, and the class whose picture is wanted."""

    poses: Float[np.ndarray, "n ..."]
    classes: Int[np.ndarray, "n"] | None = None

    def __post_init__(self) -> None:
        self.images = len(self.poses)


class Engine:
    """A network and the shapes that requests for it have."""

    def __init__(self, weights: str | Network, threads: int | None = None) -> None:
        self.network = weights if isinstance(weights, Network) else open_network(weights, threads)
        self.preprocessing = self.network.preprocessing
        self.num_classes = self.network.num_classes
        self.class_names = self.network.class_names
        self.pose_shape, self.input_capsules = self.network.probe()
        self.has_capsules = has_capsules(self.pose_shape, self.num_classes)

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of pictures before the pre-processing."""
        return self.network.picture_shape

    def numbers(self, include: frozenset[str], top: int) -> int:
        """How many numbers an image's answer holds besides its scores."""
        capsules = self.input_capsules or 0
        sizes = {
            "poses": prod(self.pose_shape),
            "coupling": self.num_classes * capsules,
            "reconstructions": top * prod(self.network.image_shape),
            "input": prod(self.picture_shape),
        }
        return sum(sizes[name] for name in include)

    def predict(self, questions: Sequence[Question]) -> list[list[Prediction]]:
        """For each request a list of predictions, from one forward pass."""
        # Whole numbers stay whole: only a batch with fractions in it becomes floats.
        pictures = np.concatenate([q.pictures for q in questions])
        output = self.network.compute(pictures, coupling=any("coupling" in q.include for q in questions))
        evidence = output.evidence or Evidence(output.scores)
        reasons = find_reasons(self.network.detector, evidence, pictures)
        answers, start = [], 0
        for question in questions:
            rows = slice(start, start + question.images)
            start += question.images
            predictions = [
                msgspec.convert(describe_scores(row, self.class_names, reason), Prediction)
                for row, reason in zip(output.scores[rows].tolist(), reasons[rows], strict=True)
            ]
            extras: dict[str, list[Any]] = {}
            if question.top > 1:
                best = best_classes(output.scores[rows], question.top)
                extras["classes"] = [[self.class_names[k] for k in row] for row in best.tolist()]
            if "poses" in question.include:
                extras["poses"] = rounded(output.poses[rows])
            if "coupling" in question.include:
                coupling = output.coupling
                extras["coupling"] = (
                    rounded(coupling[rows]) if coupling is not None else [None] * question.images
                )
            if "reconstructions" in question.include:
                extras["reconstructions"] = self._best(output.poses[rows], output.scores[rows], question.top)
            if "input" in question.include:
                extras["input"] = to_pixels(question.pictures.astype(np.float32) / np.float32(255))
            for name, values in extras.items():
                for prediction, value in zip(predictions, values, strict=True):
                    setattr(prediction, name, value)
            answers.append(predictions)
        return answers

    def _best(self, poses: np.ndarray, scores: np.ndarray, top: int) -> list[list[Drawing]]:
        """The pictures of each image's best-scored classes, best first; none without a decoder."""
        if not self.network.has_decoder:
            return [[] for _ in range(len(poses))]
        classes = best_classes(scores, top)
        pictures = to_pixels(self.network.reconstruct(poses.repeat(top, axis=0), classes.flatten()))
        return [
            [Drawing(self.class_names[k], pictures[n * top + i]) for i, k in enumerate(row)]
            for n, row in enumerate(classes.tolist())
        ]

    def reconstruct(self, requests: Sequence[Poses]) -> list[list[Any]]:
        """For each request the pictures of its poses, from one pass of the decoder."""
        poses = np.concatenate([r.poses for r in requests])
        given = [np.zeros(r.images, dtype=np.int64) if r.classes is None else r.classes for r in requests]
        pictures = to_pixels(self.network.reconstruct(poses, np.concatenate(given)))
        answers, start = [], 0
        for request in requests:
            answers.append(pictures[start : start + request.images])
            start += request.images
        return answers


def best_classes(scores: Float[np.ndarray, "n j"], top: int) -> Int[np.ndarray, "n top"]:
    """Return the best-scored classes, best first; of equal ones the first."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :top]


def rounded(values: np.ndarray) -> list[Any]:
    """As nested lists without the tail of digits that float32 never had."""
    lists: list[Any] = (np.round(values.astype(np.float64) * 10**DIGITS) / 10**DIGITS).tolist()
    return lists


def to_pixels(pictures: np.ndarray) -> list[Any]:
    """0..1 as whole numbers 0..255."""
    lists: list[Any] = np.clip(np.round(pictures * np.float32(255)), 0, 255).astype(np.uint8).tolist()
    return lists
