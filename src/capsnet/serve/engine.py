"""Weights that are ready to answer: whole batches of requests in, answers out.

Letters: N images of one request, B of a batch, J classes, D pose size, C x H x W image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import PurePath
from typing import Any

import msgspec
import torch
from torch import Tensor

from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError
from capsnet.opening import open_weights
from capsnet.predict import describe_scores
from capsnet.serve.batching import Sized
from capsnet.serve.messages import Drawing, Prediction

DIGITS = 6  # more than a float32 pose needs to give the same picture


@dataclass
class Question(Sized):
    """Pictures (N, C, H, W) of 0..255, what is wanted besides the scores, and how many classes to reconstruct."""

    pictures: Tensor
    include: frozenset[str] = frozenset()
    top: int = 1

    def __post_init__(self) -> None:
        self.images = len(self.pictures)


@dataclass
class Poses(Sized):
    """Poses (N, J, D), or whatever the decoder reads, and the class (N,) whose picture is wanted."""

    poses: Tensor
    classes: Tensor | None = None

    def __post_init__(self) -> None:
        self.images = len(self.poses)


class Engine:
    """A model with what its card says about pictures and class names."""

    def __init__(self, weights: str) -> None:
        self.opened = open_weights(weights)
        model = self.opened.model
        if not model.card.preprocessing:
            raise CapsNetError(f"The weights '{weights}' don't say how a picture is prepared for them.")
        self.weights = weights
        self.model = model
        self.preprocessing = Preprocessing.from_dict(model.card.preprocessing)
        self.num_classes = model.architecture.num_classes
        self.class_names = model.card.names_of(self.num_classes)
        blank = torch.zeros(1, *self.picture_shape, dtype=torch.uint8)
        with torch.inference_mode():
            output = model(self.preprocessing.apply(blank), coupling=True)
        self.pose_shape = tuple(output.poses.shape[1:])
        self.has_capsules = len(self.pose_shape) == 2 and self.pose_shape[0] == self.num_classes
        self.input_capsules = None if output.coupling is None else output.coupling.shape[2]

    @property
    def stored_size(self) -> tuple[int, int]:
        """Height and width of pictures before the pre-processing."""
        return self.preprocessing.resize or (self.model.image_shape[1], self.model.image_shape[2])

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of pictures before the pre-processing."""
        return self.model.image_shape[0], *self.stored_size

    def numbers(self, include: frozenset[str], top: int) -> int:
        """How many numbers an image's answer holds besides its scores."""
        capsules = self.input_capsules or 0
        sizes = {
            "poses": prod(self.pose_shape),
            "coupling": self.num_classes * capsules,
            "reconstructions": top * prod(self.model.image_shape),
            "input": prod(self.picture_shape),
        }
        return sum(sizes[name] for name in include)

    def describe(self) -> dict[str, Any]:
        """For `/v1/model`; a data set that is a path gives its last part only."""
        model, provenance = self.model, self.model.card.provenance
        return {
            "name": model.architecture.name,
            "image_shape": list(model.image_shape),
            "picture_shape": list(self.picture_shape),
            "class_names": list(self.class_names),
            "pose_shape": list(self.pose_shape),
            "has_capsules": self.has_capsules,
            "input_capsules": self.input_capsules,
            "has_decoder": model.decoder is not None,
            "encoder_parameters": sum(p.numel() for p in model.encoder.parameters()),
            "preprocessing": self.preprocessing.to_dict(),
            "dataset": PurePath(str(dataset)).name if (dataset := provenance.get("dataset")) else None,
            "score": model.card.score,
        }

    @torch.inference_mode()
    def predict(self, questions: Sequence[Question]) -> list[list[Prediction]]:
        """For each request a list of predictions, from one forward pass."""
        images = torch.cat([self.preprocessing.apply(q.pictures) for q in questions])
        output = self.model(images, coupling=any("coupling" in q.include for q in questions))
        answers, start = [], 0
        for question in questions:
            rows = slice(start, start + question.images)
            start += question.images
            predictions = [
                msgspec.convert(describe_scores(row, self.class_names, blank=not picture.any()), Prediction)
                for row, picture in zip(output.scores[rows].tolist(), question.pictures, strict=True)
            ]
            extras: dict[str, list[Any]] = {}
            if question.top > 1:
                best = output.scores[rows].topk(question.top, dim=1).indices.tolist()
                extras["classes"] = [[self.class_names[k] for k in row] for row in best]
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
                extras["input"] = to_pixels(question.pictures.float() / 255)
            for name, values in extras.items():
                for prediction, value in zip(predictions, values, strict=True):
                    setattr(prediction, name, value)
            answers.append(predictions)
        return answers

    def _best(self, poses: Tensor, scores: Tensor, top: int) -> list[list[Drawing]]:
        """The pictures of each image's best-scored classes, best first; none without a decoder."""
        if self.model.decoder is None:
            return [[] for _ in range(len(poses))]
        classes = scores.topk(top, dim=1).indices
        pictures = to_pixels(self.model.reconstruct(poses.repeat_interleave(top, dim=0), classes.flatten()))
        return [
            [Drawing(self.class_names[k], pictures[n * top + i]) for i, k in enumerate(classes[n].tolist())]
            for n in range(len(poses))
        ]

    @torch.inference_mode()
    def reconstruct(self, requests: Sequence[Poses]) -> list[list[Any]]:
        """For each request the pictures of its poses, from one pass of the decoder."""
        poses = torch.cat([r.poses for r in requests])
        given = [r.classes if r.classes is not None else torch.zeros(r.images).long() for r in requests]
        pictures = to_pixels(self.model.reconstruct(poses, torch.cat(given)))
        answers, start = [], 0
        for request in requests:
            answers.append(pictures[start : start + request.images])
            start += request.images
        return answers


def rounded(values: Tensor) -> list[Any]:
    """As nested lists without the tail of digits that float32 never had."""
    return values.double().mul(10**DIGITS).round().div(10**DIGITS).tolist()


def to_pixels(pictures: Tensor) -> list[Any]:
    """0..1 as whole numbers 0..255."""
    return pictures.mul(255).round().clamp(0, 255).to(torch.uint8).tolist()
