"""Trucks: a cab, a chassis, a load. Pick-ups and vans among them have a car's proportions.

Lengths are in units of the truck, which lies from -0.5 to 0.5; `cab` is the length of the cab, `tall` its
height over the chassis, and the load fills what is behind.
"""

from typing import Any

import numpy as np

from capsnet.data.toyviews.animals import Build
from capsnet.data.toyviews.cars import GLASS, house, wheels
from capsnet.data.toyviews.loads import LOADS
from capsnet.data.toyviews.solids import Ball, Body, Box, Limb


def truck(
    rng: np.random.Generator,
    *,
    load: str,
    cab: float = 0.2,
    tall: float = 0.2,
    wide: float = 0.15,
    deck: float = 0.13,
    wheel: float = 0.065,
    axles: tuple[float, ...] = (-0.38, -0.24, 0.36),
    bonnet: float = 0.0,
) -> Body:
    """bonnet: length of the engine's hood before the cab, 0 for a cab over the engine."""

    def vary(value: float, by: float = 0.13) -> float:
        return value * float(rng.uniform(1 - by, 1 + by))

    wide, tall, cab, wheel = vary(wide), vary(tall), vary(cab), vary(wheel)
    deck = max(vary(deck), 1.45 * wheel)
    bonnet = vary(bonnet, 0.2)
    body = Body()
    body.add(Box(centre=(0, 0, deck - 0.025), half=(0.48, 0.6 * wide, 0.025), round=0.01, albedo=0.75))
    body.add(*wheels(axles, wide - 0.03, wheel, 0.04))
    face = 0.5 - bonnet
    back = face - cab
    belt = deck + 0.5 * tall
    body.add(
        Box(
            centre=((face + back) / 2, 0, (deck - 0.04 + belt) / 2),
            half=(cab / 2, wide, (belt - deck + 0.04) / 2),
        )
    )
    slant = float(rng.uniform(0.0, 0.06)) + (0.04 if bonnet else 0)
    body.add(house((back, face, back + 0.01, face - slant, 0.5 * tall), wide, belt, GLASS, 0.93))
    roof = (back + face - slant) / 2
    body.add(
        Box(centre=(roof, 0, deck + tall), half=((face - slant - back) / 2, 0.93 * wide, 0.02), round=0.015)
    )
    if bonnet:
        low = 0.85 * belt - deck + 0.04
        body.add(
            Box(
                centre=(face + bonnet / 2, 0, deck - 0.04 + low / 2),
                half=(bonnet / 2 + 0.01, 0.72 * wide, low / 2),
            ),
            Ball(centre=(0.38, 0.85 * wide, deck - 0.01), radii=(0.1, 0.045, 0.055), mirrored=True),
        )
    body.add(Box(centre=(0.5, 0, deck - 0.05), half=(0.02, wide, 0.022), round=0.01))
    if rng.random() < 0.4:
        pipe = (back - 0.015, 0.9 * wide, deck)
        body.add(Limb(a=pipe, b=(*pipe[:2], deck + tall + 0.08), ra=0.017, rb=0.017, mirrored=True))
    LOADS[load](rng, body, -0.5, back - 0.03, wide, deck, tall)
    return body


def _truck(**numbers: Any) -> Build:
    return lambda rng: truck(rng, **numbers)


# fmt: off
KINDS: dict[str, Build] = {
    "box truck": _truck(load="box", axles=(-0.3, 0.34)),
    "trailer": _truck(load="box", cab=0.15, tall=0.17, wide=0.105, wheel=0.045, deck=0.09, axles=(-0.42,
        -0.34, 0.14, 0.23, 0.4)),
    "pick-up": _truck(load="bed", cab=0.25, tall=0.23, wide=0.17, deck=0.15, bonnet=0.2, wheel=0.085,
        axles=(-0.3, 0.32)),
    "dump truck": _truck(load="dump", wide=0.17, wheel=0.085, tall=0.2, axles=(-0.32, -0.13, 0.35)),
    "tanker": _truck(load="tank", wide=0.13, bonnet=0.12, axles=(-0.4, -0.28, 0.12, 0.36)),
    "mixer": _truck(load="mixer", wide=0.15, axles=(-0.36, -0.2, 0.36)),
    "fire engine": _truck(load="ladder", cab=0.24, wide=0.14, tall=0.19, axles=(-0.28, 0.33)),
    "log truck": _truck(load="logs", bonnet=0.14, wide=0.13, tall=0.18, axles=(-0.4, -0.28, 0.1, 0.36)),
    "crane": _truck(load="crane", wide=0.15, axles=(-0.36, -0.22, 0.18, 0.36)),
    "army truck": _truck(load="round", bonnet=0.16, wide=0.17, tall=0.21, wheel=0.08, axles=(-0.36, -0.18,
        0.36)),
    "delivery van": _truck(load="box", cab=0.24, tall=0.26, wide=0.19, wheel=0.07, bonnet=0.1, axles=(-0.3,
        0.34)),
    "flatbed": _truck(load="bed", cab=0.2, tall=0.22, wide=0.17, axles=(-0.32, 0.34)),
}
# fmt: on
