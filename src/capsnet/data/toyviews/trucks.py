"""Trucks: a cab, a chassis, a load. Pick-ups and vans among them have a car's proportions.

Lengths are in units of the truck, which lies from -0.5 to 0.5; `cab` is the length of the cab, `tall` its height over
the chassis, and the load fills what is behind.
"""

from typing import Any

import numpy as np

from capsnet.data.toyviews.animals import Build
from capsnet.data.toyviews.cars import GLASS, house, wheels
from capsnet.data.toyviews.solids import Ball, Body, Box, Drum, Limb


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


def _box(
    rng: np.random.Generator, body: Body, rear: float, front: float, wide: float, deck: float, tall: float
) -> None:
    high = tall * float(rng.uniform(1.1, 1.6)) / 2
    body.add(
        Box(
            centre=((rear + front) / 2, 0, deck + high + 0.01),
            half=((front - rear) / 2, 1.08 * wide, high),
            round=0.012,
        )
    )


def _sides(
    body: Body, rear: float, front: float, wide: float, deck: float, high: float, lean: float = 0.0
) -> None:
    """An open bed: a floor and four walls."""
    middle, half = (rear + front) / 2, (front - rear) / 2
    body.add(Box(centre=(middle, 0, deck + 0.02), half=(half, wide, 0.02), round=0.01))
    body.add(
        Box(
            centre=(middle, wide, deck + high / 2),
            half=(half, 0.014, high / 2),
            turn=(0, 0, -lean),
            round=0.01,
            mirrored=True,
        )
    )
    for x in (rear, front):
        body.add(Box(centre=(x, 0, deck + high / 2), half=(0.014, wide, high / 2), round=0.01))


def _bed(
    rng: np.random.Generator, body: Body, rear: float, front: float, wide: float, deck: float, tall: float
) -> None:
    _sides(body, rear, front + 0.02, 0.97 * wide, deck - 0.03, 0.45 * tall + 0.03)


def _dump(
    rng: np.random.Generator, body: Body, rear: float, front: float, wide: float, deck: float, tall: float
) -> None:
    _sides(body, rear, front, 1.15 * wide, deck, 0.8 * tall, lean=10)
    middle = (rear + front) / 2
    heap = float(rng.uniform(0.6, 1.05)) * tall
    body.add(Ball(centre=(middle, 0, deck + 0.03), radii=(0.42 * (front - rear), 0.9 * wide, heap)))
    body.add(Box(centre=(front + 0.06, 0, deck + 1.1 * tall), half=(0.08, wide, 0.015)))


def _tank(
    rng: np.random.Generator, body: Body, rear: float, front: float, wide: float, deck: float, tall: float
) -> None:
    radius = float(rng.uniform(0.9, 1.1)) * wide
    a, b = (rear + 0.08, 0.0, deck + radius), (front - 0.04, 0.0, deck + radius)
    body.add(
        Drum(
            centre=((a[0] + b[0]) / 2, 0, a[2]),
            radius=radius,
            half=(b[0] - a[0]) / 2 + 0.04,
            turn=(90, 0, 0),
            round=0.06,
        )
    )
    for part in (0.3, 0.7):
        x = a[0] + part * (b[0] - a[0])
        body.add(Drum(centre=(x, 0, deck + 2 * radius), radius=0.05, half=0.03, turn=(0, 0, 90)))
    body.add(
        Box(centre=((rear + front) / 2, wide, deck), half=((front - rear) / 2, 0.02, 0.03), mirrored=True)
    )


def _mixer(
    rng: np.random.Generator, body: Body, rear: float, front: float, wide: float, deck: float, tall: float
) -> None:
    size = float(rng.uniform(1.0, 1.2)) * wide
    mouth = (rear + 0.03, 0.0, deck + 2.0 * size)
    body.add(
        Ball(
            centre=(0.45 * rear + 0.55 * front - 0.02, 0, deck + 1.05 * size),
            radii=(0.2, size, size),
            turn=(0, 14, 0),
        ),
        Limb(a=(-0.12, 0, deck + 1.2 * size), b=mouth, ra=0.75 * size, rb=0.35 * size),
        blend=0.03,
    )
    body.add(
        Limb(
            a=(rear + 0.06, 0.6 * wide, deck),
            b=(rear + 0.08, 0.3 * wide, mouth[2]),
            ra=0.02,
            rb=0.02,
            mirrored=True,
        )
    )
    body.add(Limb(a=mouth, b=(rear - 0.06, 0, deck + 0.05), ra=0.035, rb=0.03))


def _ladder(
    rng: np.random.Generator, body: Body, rear: float, front: float, wide: float, deck: float, tall: float
) -> None:
    middle, half = (rear + front) / 2, (front - rear) / 2
    body.add(Box(centre=(middle, 0, deck + 0.35 * tall), half=(half, wide, 0.35 * tall)))
    pitch = float(rng.uniform(3, 14))
    pivot = (rear + 0.1, 0.0, deck + 0.95 * tall)
    body.add(Drum(centre=(pivot[0], 0, deck + 0.75 * tall), radius=0.08, half=0.05, turn=(0, 0, 90)))
    ahead, up = float(np.cos(np.radians(pitch))), float(np.sin(np.radians(pitch)))
    for step in np.arange(0.0, 0.8, 0.09):
        at = (pivot[0] + float(step) * ahead, pivot[2] + float(step) * up)
        body.add(Limb(a=(at[0], -0.06, at[1]), b=(at[0], 0.06, at[1]), ra=0.013, rb=0.013))
    end = (pivot[0] + 0.78 * ahead, 0.06, pivot[2] + 0.78 * up)
    body.add(Limb(a=(pivot[0], 0.06, pivot[2]), b=end, ra=0.018, rb=0.018, mirrored=True))


def _logs(
    rng: np.random.Generator, body: Body, rear: float, front: float, wide: float, deck: float, tall: float
) -> None:
    radius = 0.3 * wide
    for row, count in enumerate((3, 2, 1)[: int(rng.integers(2, 4))]):
        for i in range(count):
            y = (i - (count - 1) / 2) * 2 * radius
            z = deck + radius * (1 + 1.7 * row)
            ends = rear + float(rng.uniform(-0.02, 0.06)), front - float(rng.uniform(0, 0.06))
            body.add(
                Drum(
                    centre=(sum(ends) / 2, y, z), radius=radius, half=(ends[1] - ends[0]) / 2, turn=(90, 0, 0)
                )
            )
    for x in (rear + 0.1, front - 0.08):
        body.add(Box(centre=(x, wide, deck + 0.5 * tall), half=(0.015, 0.012, 0.5 * tall), mirrored=True))


def _crane(
    rng: np.random.Generator, body: Body, rear: float, front: float, wide: float, deck: float, tall: float
) -> None:
    body.add(
        Box(centre=((rear + front) / 2, 0, deck + 0.02), half=((front - rear) / 2, wide, 0.025), round=0.01)
    )
    foot = (rear + 0.2, 0.0, deck)
    head = (foot[0], 0.0, deck + 1.1 * tall)
    pitch = np.radians(float(rng.uniform(8, 40)))
    tip = (head[0] + 0.5 * float(np.cos(pitch)), 0.0, head[2] + 0.5 * float(np.sin(pitch)))
    body.add(Box(centre=(foot[0] - 0.04, 0, deck + 0.4 * tall), half=(0.1, 0.75 * wide, 0.4 * tall)))
    body.add(Limb(a=foot, b=head, ra=0.05, rb=0.045), Limb(a=head, b=tip, ra=0.04, rb=0.025))


def _round(
    rng: np.random.Generator, body: Body, rear: float, front: float, wide: float, deck: float, tall: float
) -> None:
    """A covered wagon: canvas over hoops; army trucks and dust carts."""
    middle, half = (rear + front) / 2, (front - rear) / 2
    body.add(Box(centre=(middle, 0, deck + 0.25 * tall), half=(half, 1.05 * wide, 0.25 * tall), round=0.015))
    body.add(
        Ball(
            centre=(middle, 0, deck + 0.5 * tall),
            radii=(1.15 * half, wide, float(rng.uniform(0.6, 0.9)) * tall),
        )
    )


LOADS = {
    "box": _box, "bed": _bed, "dump": _dump, "tank": _tank, "mixer": _mixer,
    "ladder": _ladder, "logs": _logs, "crane": _crane, "round": _round,
}  # fmt: skip


def _truck(**numbers: Any) -> Build:
    return lambda rng: truck(rng, **numbers)


KINDS: dict[str, Build] = {
    "box truck": _truck(load="box", axles=(-0.3, 0.34)),
    "trailer": _truck(
        load="box",
        cab=0.15,
        tall=0.17,
        wide=0.105,
        wheel=0.045,
        deck=0.09,
        axles=(-0.42, -0.34, 0.14, 0.23, 0.4),
    ),
    "pick-up": _truck(load="bed", cab=0.26, tall=0.2, wide=0.19, bonnet=0.22, wheel=0.08, axles=(-0.3, 0.32)),
    "dump truck": _truck(load="dump", wide=0.17, wheel=0.085, tall=0.2, axles=(-0.32, -0.13, 0.35)),
    "tanker": _truck(load="tank", wide=0.13, bonnet=0.12, axles=(-0.4, -0.28, 0.12, 0.36)),
    "mixer": _truck(load="mixer", wide=0.15, axles=(-0.36, -0.2, 0.36)),
    "fire engine": _truck(load="ladder", cab=0.24, wide=0.14, tall=0.19, axles=(-0.28, 0.33)),
    "log truck": _truck(load="logs", bonnet=0.14, wide=0.13, tall=0.18, axles=(-0.4, -0.28, 0.1, 0.36)),
    "crane": _truck(load="crane", wide=0.15, axles=(-0.36, -0.22, 0.18, 0.36)),
    "army truck": _truck(
        load="round", bonnet=0.16, wide=0.17, tall=0.21, wheel=0.08, axles=(-0.36, -0.18, 0.36)
    ),
    "delivery van": _truck(
        load="box", cab=0.24, tall=0.26, wide=0.19, wheel=0.07, bonnet=0.1, axles=(-0.3, 0.34)
    ),
    "flatbed": _truck(load="bed", cab=0.2, tall=0.22, wide=0.17, axles=(-0.32, 0.34)),
}
