"""Are gradients to be trusted? Checks after Athalye et al. 2018 and Carlini et al. 2019, without which no attack says much.

- In 64 bits the gradient predicts what a small step along it does.
- Few pictures have a gradient of zero, or one that is not finite.
- Many steps deceive at least as often as one, and one at least as often as random noise of the same strength.
- With no bound on the change, everything is deceived.
- Pictures made for another network deceive less than those made for this one.

Letters: B batch.
"""

import copy
from typing import Any

import torch
from torch import Tensor

from capsnet.analysis.attacks.gradient import Attack, Bounds, gradient, lead_of_wrong
from capsnet.models.base import CapsuleModel

STEP = 1e-6


def check_slope(model: CapsuleModel, images: Tensor, labels: Tensor) -> dict[str, float]:
    """Compare gradients with differences in 64 bits, along their own direction; and count those that vanish in 32."""
    wide = copy.deepcopy(model).double()

    def objective(x: Tensor) -> Tensor:
        return lead_of_wrong(wide(x), labels)

    x = images.double()
    _, slope = gradient(objective, x)
    norm = slope.flatten(1).norm(dim=1).clamp_min(1e-30)
    ahead = slope / norm.view(-1, 1, 1, 1)
    with torch.no_grad():
        found = (objective(x + STEP * ahead) - objective(x - STEP * ahead)) / (2 * STEP)
    error = (found - norm).abs() / norm.maximum(found.abs()).clamp_min(1e-12)
    _, narrow = gradient(lambda x: lead_of_wrong(model(x), labels), images)
    vanished = (narrow.flatten(1).abs().amax(dim=1) == 0) | ~narrow.flatten(1).isfinite().all(dim=1)
    return {
        "median_difference_percent": 100 * float(error.median()),
        "gradients_lost_percent": 100 * float(vanished.double().mean()),
    }


@torch.no_grad()
def error_percent(model: CapsuleModel, images: Tensor, labels: Tensor) -> float:
    """Return the share of pictures that a model errs on."""
    return 100 * float((model(images).scores.argmax(dim=1) != labels).double().mean())


def check(
    model: CapsuleModel,
    images: Tensor,
    labels: Tensor,
    bounds: Bounds,
    strength: float,
    *,
    steps: int,
    others: dict[str, CapsuleModel],
) -> dict[str, Any]:
    """Return the errors that tell masked gradients from real ones, and whether all is as it must be."""
    generator = torch.Generator().manual_seed(0)
    attack = Attack(model, bounds, steps)
    signs = 2 * torch.randint(0, 2, images.shape, generator=generator).to(images) - 1
    shaken = bounds.keep(images + strength * (bounds.high - bounds.low) * signs, images, strength)
    pgd = attack.pgd(images, labels, strength, generator)
    transferred = {
        name: error_percent(
            model, Attack(other, bounds, steps).pgd(images, labels, strength, generator), labels
        )
        for name, other in others.items()
    }
    found: dict[str, Any] = {
        **check_slope(model, images, labels),
        "strength": strength,
        "random_error_percent": error_percent(model, shaken, labels),
        "fgsm_error_percent": error_percent(model, attack.fgsm(images, labels, strength), labels),
        "pgd_error_percent": error_percent(model, pgd, labels),
        "unbounded_error_percent": error_percent(model, attack.pgd(images, labels, 1.0, generator), labels),
        "transferred_error_percent": transferred,
    }
    found["trusted"] = bool(
        found["median_difference_percent"] < 1
        and found["gradients_lost_percent"] < 1
        and found["random_error_percent"] <= found["fgsm_error_percent"] <= found["pgd_error_percent"]
        and max([0.0, *transferred.values()]) <= found["pgd_error_percent"]
        and found["unbounded_error_percent"] == 100
    )
    return found
