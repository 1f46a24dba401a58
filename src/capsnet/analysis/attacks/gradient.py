"""Attacks by gradients: FGSM (Goodfellow et al. 2015), PGD (Madry et al. 2018), towards a class, and aware of reconstruction.

All keep every pixel within `strength` of the original and inside the range that pictures have. What is followed is the lead of
the wrong classes over the right one, or of the target over the others: in logits where there are any, else in the log-odds of
the scores. A capsule's length saturates near 1, and a loss of the lengths themselves would have almost no gradient there: that
would look like a defence and be none.

The reconstruction-aware attack (Qin et al. 2020, R-PGD) goes towards a class in the first half of its steps, and in every other
one of the second half makes the reconstruction error of the target's capsule small instead, so as not to be detected. The
evasive attack does the same with the whole of the detector's rule.

Letters: B batch, J classes, C x H x W image.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from capsnet.detection.detector import Rule
from capsnet.evaluate.evidence import parts_of
from capsnet.models.base import CapsuleModel, Output

EPSILON = 1e-6
STEPS = 40


@dataclass(frozen=True)
class Bounds:
    """The range of a pixel as the network takes it, for each channel (C, 1, 1)."""

    low: Tensor
    high: Tensor

    def keep(self, images: Tensor, originals: Tensor, strength: float) -> Tensor:
        """Bring pictures back to at most `strength` of the range away from the originals, and into the range."""
        most = strength * (self.high - self.low)
        return images.clamp(originals - most, originals + most).clamp(self.low, self.high)


def evidence_for(output: Output) -> Float[Tensor, "b j"]:
    """Return what grows with a class's score and does not saturate: logits, or the log-odds of the scores."""
    if output.logits is not None:
        return output.logits
    return torch.logit(output.scores.clamp(EPSILON, 1 - EPSILON))


def lead_of_wrong(output: Output, labels: Int[Tensor, "b"]) -> Float[Tensor, "b"]:
    """Return by how much the best wrong class leads over the right one."""
    evidence = evidence_for(output)
    own = F.one_hot(labels, evidence.shape[1]).bool()
    return evidence.masked_fill(own, -torch.inf).amax(dim=1) - evidence[own]


def lead_of_target(output: Output, targets: Int[Tensor, "b"]) -> Float[Tensor, "b"]:
    """Return by how much the target leads over the best of the others."""
    return -lead_of_wrong(output, targets)


Objective = Callable[[Tensor], Float[Tensor, "b"]]


def gradient(objective: Objective, images: Tensor) -> tuple[Float[Tensor, "b"], Tensor]:
    """Return the objective of each picture, and its gradient."""
    images = images.detach().requires_grad_()
    values = objective(images)
    (slope,) = torch.autograd.grad(values.sum(), images)
    return values.detach(), slope


def climb(
    objectives: Callable[[int], Objective],
    originals: Tensor,
    bounds: Bounds,
    strength: float,
    *,
    steps: int,
    step: float,
    generator: torch.Generator | None,
) -> Tensor:
    """Follow the signs of gradients for so many steps, from a random place within reach where there is a generator.

    Args:
        objectives: gives what each step increases.
        step: the length of a step, as a share of the strength.
    """
    images = originals
    size = strength * step * (bounds.high - bounds.low)
    if generator is not None:
        start = torch.rand(originals.shape, generator=generator).to(originals) * 2 - 1
        images = bounds.keep(originals + strength * start * (bounds.high - bounds.low), originals, strength)
    for n in range(steps):
        slope = gradient(objectives(n), images)[1]
        images = bounds.keep(images + size * slope.sign(), originals, strength)
    return images


class DifferentiableRule:
    """A detector's rule in torch, with gradients: the strangeness of pictures as those of given classes."""

    def __init__(self, rule: Rule, model: CapsuleModel, device: torch.device) -> None:
        self.model = model
        self.yardsticks = rule.yardsticks
        self.means = {name: torch.tensor(y.means, device=device) for name, y in rule.yardsticks.items()}
        parts = next((y.parts for y in rule.yardsticks.values() if y.parts), None)
        if parts is not None:
            self.centres = torch.from_numpy(parts.means).float().to(device)
            self.whiten = torch.from_numpy(parts.whiten).float().to(device)

    def __call__(self, images: Tensor, classes: Int[Tensor, "b"]) -> Float[Tensor, "b"]:
        output = self.model(images)
        total = torch.zeros(len(images), device=images.device)
        for name, yardstick in self.yardsticks.items():
            value = self._measure(name, output, images, classes)
            total = total + yardstick.weight * value / self.means[name][classes]
        return total

    def _measure(self, name: str, output: Output, images: Tensor, classes: Tensor) -> Tensor:
        if name == "length":
            return 1 - output.scores.gather(1, classes[:, None])[:, 0]
        if name == "reconstruction":
            drawn = self.model.reconstruct(output.poses, classes)
            return (images - drawn).square().mean(dim=(1, 2, 3))
        parts = parts_of(output, features=True)
        assert name == "votes"
        assert parts is not None
        return ((parts - self.centres[classes]) @ self.whiten.T).square().mean(dim=1)


@dataclass(frozen=True)
class Attack:
    """One picture after the other is changed so that a model errs.

    Args:
        model: in evaluation mode; its parameters get no gradient.
        bounds: the range of pixels.
    """

    model: CapsuleModel
    bounds: Bounds
    steps: int = STEPS

    def fgsm(self, images: Tensor, labels: Tensor, strength: float) -> Tensor:
        """One step of full length."""
        return climb(
            lambda n: self._wrong(labels), images, self.bounds, strength, steps=1, step=1.0, generator=None
        )

    def pgd(self, images: Tensor, labels: Tensor, strength: float, generator: torch.Generator) -> Tensor:
        """Many small steps from a random start, towards any wrong class."""
        return self._climb(lambda n: self._wrong(labels), images, strength, generator)

    def targeted(
        self, images: Tensor, targets: Tensor, strength: float, generator: torch.Generator
    ) -> Tensor:
        """Many small steps towards one class."""
        return self._climb(lambda n: self._target(targets), images, strength, generator)

    def aware(self, images: Tensor, targets: Tensor, strength: float, generator: torch.Generator) -> Tensor:
        """Towards one class, and then also towards what its capsule is reconstructed as."""

        def objectives(n: int) -> Objective:
            late = n >= self.steps // 2
            return self._resemble(targets) if late and n % 2 else self._target(targets)

        return self._climb(objectives, images, strength, generator)

    def evasive(
        self, images: Tensor, targets: Tensor, strength: float, generator: torch.Generator, rule: Rule
    ) -> Tensor:
        """Towards one class, and then also towards what the detector's rule finds usual of it."""
        measured = DifferentiableRule(rule, self.model, images.device)

        def objectives(n: int) -> Objective:
            late = n >= self.steps // 2
            return (lambda x: -measured(x, targets)) if late and n % 2 else self._target(targets)

        return self._climb(objectives, images, strength, generator)

    def _climb(
        self,
        objectives: Callable[[int], Objective],
        images: Tensor,
        strength: float,
        generator: torch.Generator,
    ) -> Tensor:
        step = 2.5 / self.steps  # as Madry et al.: far enough to reach the border from anywhere
        return climb(
            objectives, images, self.bounds, strength, steps=self.steps, step=step, generator=generator
        )

    def _wrong(self, labels: Tensor) -> Objective:
        return lambda images: lead_of_wrong(self.model(images), labels)

    def _target(self, targets: Tensor) -> Objective:
        return lambda images: lead_of_target(self.model(images), targets)

    def _resemble(self, targets: Tensor) -> Objective:
        def objective(images: Tensor) -> Tensor:
            drawn = self.model.reconstruct(self.model(images).poses, targets)
            return -(images - drawn).square().mean(dim=(1, 2, 3))

        return objective
