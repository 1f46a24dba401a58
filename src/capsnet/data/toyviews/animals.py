"""Animals: most on four legs, some upright, so that posture alone does not tell them from people.

`KINDS` maps the name of a kind to a function that draws one of them: rng -> Body.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from capsnet.data.toyviews.bipeds import upright
from capsnet.data.toyviews.quadrupeds import quadruped
from capsnet.data.toyviews.solids import Body

Build = Callable[[np.random.Generator], Body]


def _four(**numbers: Any) -> Build:
    return lambda rng: quadruped(rng, **numbers)


def _two(**numbers: Any) -> Build:
    return lambda rng: upright(rng, **numbers)


# fmt: off
KINDS: dict[str, Build] = {
    "cow": _four(leg=0.42, girth=0.29, thick=0.07, neck=(0.3, 35, 0.16), head=0.15, snout=(0.2, -35),
        tail=(0.45, -65, 0.04), horns=0.2),
    "horse": _four(leg=0.62, girth=0.23, thick=0.055, neck=(0.5, 55, 0.11), head=0.11, snout=(0.3, -40),
        tail=(0.5, -60, 0.07), ears=0.12),
    "giraffe": _four(leg=0.75, girth=0.21, thick=0.05, neck=(0.95, 68, 0.075), head=0.1, snout=(0.2, -25),
        tail=(0.4, -70, 0.03), rise=0.12, ears=0.12),
    "elephant": _four(leg=0.45, girth=0.37, thick=0.12, neck=(0.22, 25, 0.2), head=0.22, snout=(0.12, -50),
        tail=(0.35, -70, 0.03), trunk=0.65, ears=0),
    "dog": _four(leg=0.42, girth=0.19, thick=0.055, neck=(0.25, 55, 0.11), head=0.14, snout=(0.18, -12),
        tail=(0.5, 40, 0.045), ears=0.16),
    "crocodile": _four(leg=0.12, girth=0.19, thick=0.06, neck=(0.18, 5, 0.13), head=0.13, snout=(0.5, -3),
        tail=(1.1, -4, 0.13), ears=0, sprawl=0.14),
    "lion": _four(leg=0.38, girth=0.22, thick=0.075, neck=(0.22, 45, 0.15), head=0.15, snout=(0.1, -15),
        tail=(0.75, 15, 0.035), mane=0.25, ears=0.05),
    "turtle": _four(leg=0.14, girth=0.22, thick=0.09, neck=(0.35, 20, 0.1), head=0.13, snout=(0.06, 0),
        tail=(0.2, -10, 0.05), ears=0, sprawl=0.2, shell=0.5),
    "camel": _four(leg=0.65, girth=0.24, thick=0.055, neck=(0.6, 40, 0.09), head=0.11, snout=(0.2, -15),
        tail=(0.35, -70, 0.03), hump=0.24),
    "stegosaur": _four(leg=0.32, girth=0.28, thick=0.09, neck=(0.4, -5, 0.12), head=0.1, snout=(0.15, -15),
        tail=(0.95, -8, 0.14), ears=0, plates=7),
    "sauropod": _four(leg=0.42, girth=0.29, thick=0.1, neck=(0.95, 42, 0.1), head=0.1, snout=(0.12, -10),
        tail=(1.15, -12, 0.15), ears=0),
    "pig": _four(leg=0.22, girth=0.3, thick=0.07, neck=(0.18, 10, 0.2), head=0.19, snout=(0.14, -10),
        tail=(0.15, 30, 0.03), ears=0.12),
    "tyrannosaur": _two(lean=35, girth=0.24, leg=0.45, thick=0.08, arm=0.25, head=0.17, snout=0.25,
        tail=(1.0, 0.18)),
    "kangaroo": _two(lean=62, girth=0.23, leg=0.35, thick=0.075, arm=0.35, head=0.13, snout=0.14, tail=(0.9,
        0.11), ears=0.2),
    "bear": _two(lean=86, girth=0.27, leg=0.32, thick=0.1, arm=0.45, head=0.18, snout=0.1, tail=(0, 0),
        ears=0.06),
    "penguin": _two(lean=88, girth=0.26, leg=0.1, thick=0.06, arm=0, head=0.16, snout=0.14, tail=(0.25,
        0.1), wings=True),
}
# fmt: on
