"""Who is in the set: ten bodies a category, five for training and five for the test, all from one seed.

Within a category no kind comes twice, and chance alone deals the kinds to the two lots. So the test asks for
what the kinds of a category have in common, as smallNORB does with its toys.
"""

import numpy as np

from capsnet.data.toyviews import aircraft, animals, cars, people, trucks
from capsnet.data.toyviews.solids import Body

CATEGORIES = ("animal", "human", "airplane", "truck", "car")
INSTANCES = 10
KINDS = (animals.KINDS, people.KINDS, aircraft.KINDS, trucks.KINDS, cars.KINDS)


def generator(*key: int) -> np.random.Generator:
    """Counter-based: each key has its own stream, whatever was drawn elsewhere and in which order."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


def kind(category: int, instance: int, *, seed: int) -> str:
    names = list(KINDS[category])
    return names[generator(seed, 0, category).permutation(len(names))[instance]]


def lots(category: int, *, seed: int) -> tuple[list[int], list[int]]:
    """The instances of the training and of the test set."""
    order = generator(seed, 1, category).permutation(INSTANCES)
    return sorted(order[:5].tolist()), sorted(order[5:].tolist())


def body(category: int, instance: int, *, seed: int) -> Body:
    rng = generator(seed, 2, category, instance)
    made = KINDS[category][kind(category, instance, seed=seed)](rng)
    made.paint = float(rng.uniform(0.5, 0.85))
    return made


def reach(category: int, instance: int, *, seed: int) -> float:
    """The radius of the ball that a body fits in: toys of several sizes."""
    return float(generator(seed, 3, category, instance).uniform(0.5, 0.6))
