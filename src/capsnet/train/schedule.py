"""The learning rate at each step."""

import math

from capsnet.config import Recipe


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int, total_steps: int) -> float:
    """Return a step's rate. exponential: times `decay` each epoch. cosine: up from zero in the warm-up, then down to zero."""
    if recipe.schedule == "exponential":
        rate = recipe.learning_rate * recipe.decay ** (step // steps_per_epoch)
    else:
        warm = round(recipe.warmup * total_steps)
        if step < warm:
            rate = recipe.learning_rate * (step + 1) / warm
        else:
            rate = recipe.learning_rate * (1 + math.cos(math.pi * (step - warm) / (total_steps - warm))) / 2
    return max(rate, recipe.floor)
