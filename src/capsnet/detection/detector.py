"""Rules that tell foreign pictures from those of the classes, calibrated to a stated rate of false alarms.

A rule divides each of its measures by the mean that it has on validation images of the same predicted class, since an eight is
harder to draw than a one, and adds them up with weights. Above the sum that the stated share of validation images exceeds, a
picture is foreign. The weights are those of `WEIGHTS`, chosen once; `docs/unknown.md` says on what.

A detector has several rules, and the first whose measures can be computed counts: without a decoder, or without few primary
capsules, only the length remains.

Letters: N images, J classes, M measures.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from capsnet.detection.measures import MEASURES, Evidence
from capsnet.detection.parts import FEW, MOST, Parts, fit_parts
from capsnet.errors import CapsNetError

FALSE_ALARM = 0.05
WEIGHTS = {"votes": 1.0, "reconstruction": 0.2, "length": 0.02}
RULES = (("votes", "reconstruction", "length"), ("length",))
TINY = 1e-9


@dataclass(frozen=True)
class Yardstick:
    """What is usual for a measure.

    Args:
        weight: what it counts in the sum.
        means: of validation images of each predicted class.
        limit: what the stated share of them exceeds, in multiples of the mean.
        parts: for the votes.
    """

    weight: float
    means: tuple[float, ...]
    limit: float
    parts: Parts | None = None

    def multiples(self, name: str, evidence: Evidence) -> Float[np.ndarray, "n"]:
        """Return a measure as multiples of its mean."""
        return _measure(name, self.parts, evidence) / np.array(self.means)[evidence.classes]


@dataclass(frozen=True)
class Rule:
    """Measures that count together, and the sum above which a picture is foreign."""

    yardsticks: Mapping[str, Yardstick]
    threshold: float

    def fits(self, evidence: Evidence) -> bool:
        """Tell whether all measures can be computed."""
        return all(
            MEASURES[name].fits(evidence)
            and (own.parts is None or own.parts.means.shape[1] == _width(evidence))
            for name, own in self.yardsticks.items()
        )

    def strangeness(self, evidence: Evidence) -> Float[np.ndarray, "n"]:
        """Return how foreign each picture is."""
        return self._sum(self._multiples(evidence))

    def reasons(self, evidence: Evidence) -> list[str | None]:
        """Return why each picture is foreign, by the measure that most exceeds its limit; None for those that are not."""
        multiples = self._multiples(evidence)
        limits = np.array([own.limit for own in self.yardsticks.values()])
        most = (multiples / limits[:, None]).argmax(axis=0)
        told = [MEASURES[name].reason for name in self.yardsticks]
        foreign = self._sum(multiples) > self.threshold
        return [told[which] if is_so else None for which, is_so in zip(most, foreign, strict=True)]

    def _multiples(self, evidence: Evidence) -> Float[np.ndarray, "m n"]:
        return np.stack([own.multiples(name, evidence) for name, own in self.yardsticks.items()])

    def _sum(self, multiples: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "n"]:
        weights = np.array([own.weight for own in self.yardsticks.values()])
        total: np.ndarray = weights @ multiples
        return total


@dataclass(frozen=True)
class Detector:
    """Rules in the order in which they are tried.

    Args:
        false_alarm: the share of validation images that each rule takes for foreign.
        calibrated_on: which images, in words.
        images: how many.
    """

    rules: tuple[Rule, ...]
    false_alarm: float
    calibrated_on: str
    images: int

    def rule_for(self, evidence: Evidence) -> Rule:
        """Return the first rule whose measures can be computed."""
        for rule in self.rules:
            if rule.fits(evidence):
                return rule
        raise CapsNetError("None of the detector's rules fits what this network gives.")

    def reasons(self, evidence: Evidence) -> list[str | None]:
        """Return why each picture is foreign; None for those that are not."""
        return self.rule_for(evidence).reasons(evidence)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON. What is known of the parts is kept once."""
        parts = next((y.parts for rule in self.rules for y in rule.yardsticks.values() if y.parts), None)
        rules = [
            {
                "measures": {
                    name: {"weight": y.weight, "means": list(y.means), "limit": y.limit}
                    for name, y in rule.yardsticks.items()
                },
                "threshold": rule.threshold,
            }
            for rule in self.rules
        ]
        return {
            "false_alarm_percent": 100 * self.false_alarm,
            "calibrated_on": self.calibrated_on,
            "images": self.images,
            "rules": rules,
            "parts": parts.to_dict() if parts else None,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], num_classes: int) -> "Detector":
        """Read a detector from JSON that anybody may have written."""
        try:
            kept = values["parts"]
            parts = None if kept is None else Parts.from_dict(kept, num_classes)
            rules = tuple(_read_rule(rule, parts, num_classes) for rule in values["rules"])
            false_alarm = float(values["false_alarm_percent"]) / 100
            if not rules or not 0 < false_alarm < 1:
                raise ValueError("it has no rules, or no rate of false alarms")
            return cls(rules, false_alarm, str(values["calibrated_on"]), int(values["images"]))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CapsNetError(f"The card's detection is damaged: {error!r}.") from error


def fit_detector(
    evidence: Evidence,
    calibrated_on: str,
    *,
    false_alarm: float = FALSE_ALARM,
    rules: Sequence[Sequence[str]] = RULES,
) -> Detector:
    """Fit every rule whose measures can be computed to images of the classes."""
    if not 0 < false_alarm < 1:
        raise CapsNetError(f"A rate of false alarms lies between 0 and 1; got {false_alarm}.")
    if len(evidence.scores) < 2:
        raise CapsNetError("Detection is calibrated on at least two images.")
    if not all(part is None or np.isfinite(part).all() for part in evidence):
        raise CapsNetError("Detection cannot be calibrated: the network gives values that are not finite.")
    fitted = [fit_rule(names, evidence, false_alarm) for names in rules if _possible(names, evidence)]
    return Detector(tuple(fitted), false_alarm, calibrated_on, len(evidence.scores))


def fit_rule(names: Sequence[str], evidence: Evidence, false_alarm: float) -> Rule:
    """Fit a rule to images of the classes.

    The threshold is measured on each half of the images by what is usual in the other half: where the parts of these very
    images are, the distance to them would be too small.
    """
    order = np.random.default_rng(0).permutation(len(evidence.scores))
    halves = [evidence.select(rows) for rows in np.array_split(order, 2)]
    sums = [
        Rule(_fit(names, other, false_alarm), math.inf).strangeness(own)
        for own, other in (halves, halves[::-1])
    ]
    threshold = float(np.quantile(np.concatenate(sums), 1 - false_alarm))
    return Rule(_fit(names, evidence, false_alarm), threshold)


def _fit(names: Sequence[str], evidence: Evidence, false_alarm: float) -> dict[str, Yardstick]:
    classes, num_classes = evidence.classes, evidence.scores.shape[1]
    fitted = {}
    for name in names:
        parts = None
        if name == "votes":
            assert evidence.parts is not None
            parts = fit_parts(evidence.parts, classes, num_classes)
        values = _measure(name, parts, evidence)
        means = np.array([_mean_of(values, classes == k) for k in range(num_classes)])
        limit = float(np.quantile(values / means[classes], 1 - false_alarm))
        weight = WEIGHTS.get(name, 1.0)
        fitted[name] = Yardstick(weight, tuple(means.tolist()), max(limit, TINY), parts)
    return fitted


def _mean_of(values: Float[np.ndarray, "n"], own: np.ndarray) -> float:
    some = values[own] if own.sum() >= FEW else values
    return max(float(some.mean()), TINY)


def _measure(name: str, parts: Parts | None, evidence: Evidence) -> Float[np.ndarray, "n"]:
    if parts is None:
        return MEASURES[name].compute(evidence)
    assert evidence.parts is not None
    return parts.distance(evidence.parts, evidence.classes)


def _possible(names: Sequence[str], evidence: Evidence) -> bool:
    return all(
        MEASURES[name].fits(evidence) and (name != "votes" or _width(evidence) <= MOST) for name in names
    )


def _width(evidence: Evidence) -> int:
    return 0 if evidence.parts is None else evidence.parts.shape[1]


def _read_rule(values: Mapping[str, Any], parts: Parts | None, num_classes: int) -> Rule:
    yardsticks = {}
    for name, kept in values["measures"].items():
        if name not in MEASURES or (name == "votes" and parts is None):
            raise ValueError(f"the measure '{name}' is unknown")
        means, weight, limit = tuple(map(float, kept["means"])), float(kept["weight"]), float(kept["limit"])
        if len(means) != num_classes or not all(0 < v < math.inf for v in (*means, weight, limit)):
            raise ValueError(f"'{name}' is not {num_classes} means, a weight and a limit above 0")
        yardsticks[name] = Yardstick(weight, means, limit, parts if name == "votes" else None)
    threshold = float(values["threshold"])
    if not yardsticks or not math.isfinite(threshold):
        raise ValueError("a rule has measures and a threshold")
    return Rule(yardsticks, threshold)
