"""Statistics over several seeds: a summary with a bootstrap interval, and two tests that compare two systems.

The interval is the percentile bootstrap of the mean (Efron 1979). Two systems trained from the same seeds are compared by
flipping the signs of their differences, exactly up to `EXACT` seeds (Fisher 1935); two networks on the same images by
McNemar's test in its exact, binomial form. Everything random comes from a fixed seed, so a summary is the same each time.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LEVEL = 0.95
DRAWS = 10_000
EXACT = 14
SEED = 0


def summarise(values: Sequence[float]) -> dict[str, Any]:
    """Return count, mean, sample deviation, min, max and the mean's interval.

    Of one value, the deviation and the interval are None.
    """
    numbers = np.asarray(values, dtype=np.float64)
    several = len(numbers) > 1
    return {
        "n": len(numbers),
        "mean": float(numbers.mean()),
        "deviation": float(numbers.std(ddof=1)) if several else None,
        "min": float(numbers.min()),
        "max": float(numbers.max()),
        "interval": bootstrap_interval(numbers) if several else None,
        "level": LEVEL,
    }


def bootstrap_interval(values: Sequence[float] | np.ndarray, level: float = LEVEL) -> list[float]:
    """Return the interval that holds the mean in `level` of the draws of as many values, with replacement."""
    numbers = np.asarray(values, dtype=np.float64)
    rows = np.random.default_rng(SEED).integers(0, len(numbers), (DRAWS, len(numbers)))
    means = numbers[rows].mean(axis=1)
    return [float(q) for q in np.quantile(means, [(1 - level) / 2, (1 + level) / 2])]


def sign_flip_p(differences: Sequence[float]) -> float:
    """Return how often random signs make the mean difference at least as large as it is; two-sided."""
    d = np.asarray(differences, dtype=np.float64)
    n = len(d)
    if n <= EXACT:
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    else:
        drawn = np.random.default_rng(SEED).integers(0, 2, (DRAWS, n))
        signs = np.vstack([np.ones(n), 1.0 - 2.0 * drawn])
    # The signs as they are count among the draws, so a p of zero cannot come out; rounding must not lose them.
    means = np.abs(signs @ d)
    return float((means >= abs(d.sum()) * (1 - 1e-12)).mean())


def mcnemar_p(only_first_wrong: int, only_second_wrong: int) -> float:
    """Test whether two networks err equally often, from the images that only one of them gets wrong; exact, two-sided."""
    n, k = only_first_wrong + only_second_wrong, min(only_first_wrong, only_second_wrong)
    tail = sum(math.comb(n, i) for i in range(k + 1)) / 2**n
    return min(1.0, 2 * tail)
