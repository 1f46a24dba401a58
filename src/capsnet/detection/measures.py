"""What makes a picture look foreign to a network: one number per picture and measure, larger for the more foreign.

- `length`: how far the best score is from 1. Of capsules it is their length (Sabour et al. 2017), of other networks the largest
  probability (Hendrycks, Gimpel 2017).
- `reconstruction`: the mean squared difference from what the decoder draws of the best class (Qin et al. 2020).
- `votes`: how far the parts that voted for the best class are from where those of its own pictures are; see `parts.py`.
- `agreement`: how much of the votes for the best class cancels out when they are added.
- `energy`: the negative logarithm of the sum of the exponentials of the logits (Liu et al. 2020).

Letters: N images, J classes, F numbers that describe the parts, C x H x W image.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

Values = Float[np.ndarray, "n"]


class Evidence(NamedTuple):
    """What a network says of pictures, as far as it is known.

    Args:
        scores: of each class, from 0 to 1.
        images: what the network was given.
        reconstruction: the picture of the best class.
        parts: the capsules that voted; of networks without votes, the poses or features.
        agreement: the length of the weighted sum of the votes for the best class, as a share of the sum of their lengths.
        logits: where scores are a softmax.
    """

    scores: Float[np.ndarray, "n j"]
    images: Float[np.ndarray, "n c h w"] | None = None
    reconstruction: Float[np.ndarray, "n c h w"] | None = None
    parts: Float[np.ndarray, "n f"] | None = None
    agreement: Float[np.ndarray, "n"] | None = None
    logits: Float[np.ndarray, "n j"] | None = None

    @property
    def classes(self) -> Int[np.ndarray, "n"]:
        """The best class of each picture."""
        best: np.ndarray = self.scores.argmax(axis=1)
        return best

    def select(self, rows: np.ndarray) -> "Evidence":
        """Return the evidence of some of the pictures."""
        return Evidence(*(None if part is None else part[rows] for part in self))  # type: ignore[arg-type]


class Measure(NamedTuple):
    """A measure, the parts of the evidence that it needs, and what is said of a picture that it finds foreign."""

    compute: Callable[[Evidence], Values]
    needs: tuple[str, ...]
    reason: str

    def fits(self, evidence: Evidence) -> bool:
        """Tell whether the evidence has what this measure needs."""
        return all(getattr(evidence, part) is not None for part in self.needs)


def _length(evidence: Evidence) -> Values:
    return 1 - evidence.scores.max(axis=1).astype(np.float64)


def _reconstruction(evidence: Evidence) -> Values:
    assert evidence.images is not None
    assert evidence.reconstruction is not None
    difference = (evidence.images - evidence.reconstruction).astype(np.float64)
    return np.square(difference).mean(axis=(1, 2, 3))


def _agreement(evidence: Evidence) -> Values:
    assert evidence.agreement is not None
    return 1 - evidence.agreement.astype(np.float64)


def _energy(evidence: Evidence) -> Values:
    assert evidence.logits is not None
    logits = evidence.logits.astype(np.float64)
    top = logits.max(axis=1)
    return -(top + np.log(np.exp(logits - top[:, None]).sum(axis=1)))


def _unfitted(evidence: Evidence) -> Values:
    raise AssertionError("votes are measured by capsnet.detection.parts.Parts")


MEASURES: dict[str, Measure] = {
    "votes": Measure(_unfitted, ("parts",), "its parts are not as those of its best class are"),
    "reconstruction": Measure(
        _reconstruction, ("images", "reconstruction"), "it does not look like what its best class stands for"
    ),
    "length": Measure(_length, ("scores",), "no class scores as high as its own pictures do"),
    "agreement": Measure(_agreement, ("agreement",), "its parts disagree about its best class"),
    "energy": Measure(_energy, ("logits",), "there is little evidence for any class"),
}
