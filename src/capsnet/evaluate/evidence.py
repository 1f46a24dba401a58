"""What a network says of pictures, as `capsnet.detection` needs it.

Letters: N images, B batch, I capsules of the layer below, J classes, D pose size, C x H x W image.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from capsnet.data.base import DataSet, Split
from capsnet.detection.detector import FALSE_ALARM, Detector, fit_detector
from capsnet.detection.measures import Evidence
from capsnet.detection.parts import MOST
from capsnet.layers.routing import Routing
from capsnet.models.base import CapsuleModel, Output

BATCH = 64
ENOUGH = 5000  # images to calibrate with


class Seen(NamedTuple):
    """A model's output, the picture of the best class, and the evidence as tensors."""

    output: Output
    drawn: Tensor | None
    parts: Tensor | None


def look(
    model: CapsuleModel, images: Float[Tensor, "b c h w"], *, coupling: bool = False, features: bool = False
) -> Seen:
    """Run a model on one batch, with all that tells a foreign picture. `features` is that of `parts_of`."""
    output = model(images, coupling=coupling)
    drawn = None if model.decoder is None else model.reconstruct(output.poses, output.scores.argmax(dim=1))
    return Seen(output, drawn, parts_of(output, features=features))


def parts_of(output: Output, *, features: bool = False) -> Float[Tensor, "b f"] | None:
    """Return the primary capsules as one row per image; None where there are none, or too many.

    Args:
        features: take the poses, or a CNN's features, in their place.
    """
    for parts in (output.parts, output.poses) if features else (output.parts,):
        if parts is not None and parts[0].numel() <= MOST:
            return parts.flatten(1)
    return None


def evidence_of(seen: Seen, images: Tensor, agreement: Tensor | None = None) -> Evidence:
    """Return what was seen of a batch, in NumPy."""

    def plain(tensor: Tensor | None) -> np.ndarray | None:
        return None if tensor is None else tensor.detach().float().cpu().numpy()

    scores = plain(seen.output.scores)
    assert scores is not None
    drawn = plain(seen.drawn)
    shown = None if drawn is None else plain(images)
    return Evidence(scores, shown, drawn, plain(seen.parts), plain(agreement), plain(seen.output.logits))


def weighted_agreement(
    votes: Float[Tensor, "b j i d"], weights: Float[Tensor, "b j i"], classes: Int[Tensor, "b"]
) -> Float[Tensor, "b"]:
    """Return the length of the weighted sum of one class's votes, as a share of the sum of their lengths."""
    rows = torch.arange(len(classes), device=votes.device)
    own = votes[rows, classes] * weights[rows, classes].unsqueeze(2)
    return own.sum(dim=1).norm(dim=1) / own.norm(dim=2).sum(dim=1).clamp_min(1e-9)


@contextmanager
def catching_votes(model: CapsuleModel) -> Iterator[list[Tensor]]:
    """Give a list that holds, after each pass, the votes for the class capsules; empty where there are none."""
    caught: list[Tensor] = []

    def keep(module: Routing, arguments: tuple[object, ...]) -> None:
        caught[:] = [votes for votes in arguments[:1] if isinstance(votes, Tensor) and votes.ndim == 4]

    handle = None if model.routing is None else model.routing.register_forward_pre_hook(keep)
    try:
        yield caught
    finally:
        if handle is not None:
            handle.remove()


@torch.inference_mode()
def gather(model: CapsuleModel, batches: Iterable[Tensor], *, votes: bool = False) -> Evidence:
    """Return the evidence of any number of batches of prepared images.

    Args:
        votes: also how far the votes agree, where there are any, and features in place of primary capsules.
    """
    device = next(model.parameters()).device
    found = []
    for batch in batches:
        images = batch.to(device)
        with catching_votes(model) as caught:
            seen = look(model, images, coupling=votes, features=votes)
        agreement, coupling = None, seen.output.coupling
        if votes and caught and coupling is not None and caught[0].shape[:3] == coupling.shape:
            prior = getattr(model.routing, "log_prior", 0.0)
            agreement = weighted_agreement(caught[0], coupling + prior, seen.output.scores.argmax(dim=1))
        found.append(evidence_of(seen, images, agreement))
    return join(found)


def join(found: list[Evidence]) -> Evidence:
    """Put the evidence of several batches together; what one of them lacks is left out."""
    whole = [
        None if any(part is None for part in parts) else np.concatenate(parts)
        for parts in zip(*found, strict=True)
    ]
    return Evidence(*whole)  # type: ignore[arg-type]


def prepared(dataset: DataSet, split: Split) -> Iterator[Tensor]:
    """Give a split's images in batches, as a model takes them."""
    for batch in dataset.evaluation_batches(split, BATCH):
        yield batch.images


def calibrate(
    model: CapsuleModel,
    dataset: DataSet,
    split: Split,
    calibrated_on: str,
    *,
    false_alarm: float = FALSE_ALARM,
    seed: int = 0,
) -> Detector:
    """Fit a detector to at most `ENOUGH` images of a split, drawn from a seed."""
    count = len(split.labels)
    if count > ENOUGH:
        rows = torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:ENOUGH]
        split = split.select(rows.sort().values)
    evidence = gather(model, prepared(dataset, split))
    return fit_detector(evidence, calibrated_on, false_alarm=false_alarm)
