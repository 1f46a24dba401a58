"""Cars: a lower body, a cabin, four wheels; sizes and lines from a roadster to a van that could be a truck.

cabin: (rear, front) of its foot along x, (rear, front) of its roof, and its height over the waist. Lengths
are in units of the car, which lies from -0.5 to 0.5.
"""

from typing import Any

import numpy as np

from capsnet.data.toyviews.animals import Build
from capsnet.data.toyviews.solids import Ball, Body, Box, Drum, Part

TYRE, GLASS = 0.45, 0.5
Cabin = tuple[float, float, float, float, float]


def wheels(places: tuple[float, ...], track: float, radius: float, wide: float) -> list[Part]:
    return [
        part
        for x in places
        for part in (
            Drum(centre=(x, track, radius), radius=radius, half=wide, albedo=TYRE, mirrored=True),
            Drum(
                centre=(x, track + 0.5 * wide, radius), radius=0.55 * radius, half=0.7 * wide, mirrored=True
            ),
        )
    ]


def house(cabin: Cabin, wide: float, waist: float, albedo: float = 1.0, inset: float = 0.82) -> Part:
    """A cabin as one leaning box: its foot and its roof are given by their ends along x."""
    rear, front, roof_rear, roof_front, tall = cabin
    middle = (rear + front) / 2
    return Box(
        centre=(middle, 0, waist + tall / 2 - 0.01),
        half=((front - rear) / 2, wide, tall / 2 + 0.01),
        top=((roof_front - roof_rear) / (front - rear), inset),
        shift=(roof_front + roof_rear) / 2 - middle,
        round=0.03,
        albedo=albedo,
    )


def car(
    rng: np.random.Generator,
    *,
    wide: float = 0.21,
    clear: float = 0.06,
    waist: float = 0.17,
    wheel: float = 0.075,
    cabin: Cabin | None = (-0.36, 0.18, -0.24, 0.04, 0.13),
    hood: float = 1.0,
    soft: float = 0.04,
    extra: str = "",
) -> Body:
    """hood: height of the bonnet against the waist."""

    def vary(value: float, by: float = 0.12) -> float:
        return value * float(rng.uniform(1 - by, 1 + by))

    wide, waist, wheel = vary(wide), vary(waist), vary(wheel, 0.15)
    middle, half = (clear + waist) / 2, (waist - clear) / 2
    body = Body()
    nose = float(rng.uniform(0.15, 0.25))
    body.add(
        Box(centre=(-nose / 2, 0, middle), half=(0.5 - nose / 2, wide, half), round=soft),
        Box(
            centre=(0.25, 0, middle - half * (1 - hood)),
            half=(0.25, vary(0.95 * wide, 0.05), half * hood),
            round=soft,
        ),
        blend=0.02,
    )
    axle = float(rng.uniform(0.27, 0.33))
    body.add(*wheels((-axle, axle), wide - 0.02, wheel, 0.035))
    if cabin is not None:
        shift = float(rng.uniform(-0.04, 0.04))
        rear, front, roof_rear, roof_front, tall = cabin
        shape = (rear, front + shift, roof_rear + 0.5 * shift, roof_front + shift, vary(tall, 0.15))
        inset = float(rng.uniform(0.74, 0.86))
        body.add(house(shape, 0.93 * wide, waist, GLASS, inset))
        length = shape[3] - shape[2]
        roof = ((shape[3] + shape[2]) / 2, 0.0, waist + shape[4])
        body.add(Box(centre=roof, half=(length / 2, 0.93 * wide * inset, 0.015), round=0.015))
        top = roof[2]
    else:
        body.add(
            Box(
                centre=(0.1, 0, waist + 0.05), half=(0.012, 0.85 * wide, 0.06), turn=(0, -28, 0), albedo=GLASS
            )
        )
        for x in (-0.22, -0.02):
            body.add(Box(centre=(x, 0.45 * wide, waist + 0.02), half=(0.03, 0.3 * wide, 0.07), mirrored=True))
        top = waist
    light = (0.49, 0.7 * wide, clear + 1.2 * half * hood)
    body.add(Ball(centre=light, radii=(0.02, 0.035, 0.025), mirrored=True))
    body.add(Box(centre=(0, 0, clear + 0.025), half=(0.52, 0.9 * wide, 0.02), round=0.015, albedo=0.8))
    _extra(body, extra, wide, waist, top)
    return body


def _extra(body: Body, extra: str, wide: float, waist: float, top: float) -> None:
    if extra == "spoiler":
        body.add(Box(centre=(-0.46, 0, waist + 0.09), half=(0.045, wide, 0.012), turn=(0, 8, 0)))
        body.add(Box(centre=(-0.46, 0.6 * wide, waist + 0.04), half=(0.02, 0.012, 0.06), mirrored=True))
    elif extra == "rack":
        for x in (-0.3, -0.15, 0.0):
            body.add(Box(centre=(x, 0, top + 0.03), half=(0.012, 0.75 * wide, 0.012)))
        body.add(Box(centre=(-0.15, 0, top + 0.06), half=(0.14, 0.5 * wide, 0.03)))
    elif extra == "spare":
        body.add(Drum(centre=(-0.53, 0, 1.05 * waist), radius=0.08, half=0.03, turn=(90, 0, 0), albedo=TYRE))
    elif extra == "sign":
        body.add(Box(centre=(-0.08, 0, top + 0.04), half=(0.03, 0.09, 0.035)))


def beetle(rng: np.random.Generator) -> Body:
    """Round everywhere, with wings over the wheels."""
    tall, wide = float(rng.uniform(0.22, 0.27)), float(rng.uniform(0.17, 0.21))
    body = Body()
    body.add(
        Ball(centre=(-0.06, 0, 0.14), radii=(0.42, wide, tall)),
        Ball(centre=(0.25, 0, 0.13), radii=(0.27, 0.75 * wide, 0.12)),
        Box(centre=(0, 0, 0.1), half=(0.42, wide, 0.05), round=0.05),
        blend=0.05,
    )
    body.add(Ball(centre=(0.08, 0, 0.28), radii=(0.1, 0.8 * wide, 0.08), albedo=GLASS))
    for x in (-0.3, 0.31):
        body.add(Ball(centre=(x, wide, 0.11), radii=(0.14, 0.07, 0.1), mirrored=True))
    body.add(*wheels((-0.3, 0.31), wide + 0.02, 0.085, 0.035))
    return body


def oldtimer(rng: np.random.Generator) -> Body:
    """A narrow bonnet, a tall upright cabin, mudguards and a running board."""
    wide, tall = float(rng.uniform(0.17, 0.2)), float(rng.uniform(0.2, 0.26))
    body = Body()
    body.add(
        Box(centre=(0.22, 0, 0.17), half=(0.2, 0.6 * wide, 0.075), round=0.03),
        Box(centre=(-0.16, 0, 0.16), half=(0.24, wide, 0.08), round=0.03),
    )
    body.add(house((-0.38, 0.06, -0.37, 0.04, tall), 0.95 * wide, 0.23, GLASS, 0.95))
    body.add(Box(centre=(-0.165, 0, 0.23 + tall), half=(0.23, wide, 0.018), round=0.018))
    body.add(Box(centre=(0, 0, 0.09), half=(0.3, wide + 0.04, 0.012), round=0.01))
    for x in (-0.3, 0.31):
        body.add(Ball(centre=(x, wide, 0.14), radii=(0.14, 0.05, 0.07), mirrored=True))
    body.add(*wheels((-0.3, 0.31), wide, 0.105, 0.025))
    body.add(Ball(centre=(0.43, 0.1, 0.2), radii=(0.03, 0.035, 0.035), mirrored=True))
    body.add(Drum(centre=(-0.43, 0, 0.2), radius=0.09, half=0.025, turn=(90, 0, 0), albedo=TYRE))
    return body


def _car(**numbers: Any) -> Build:
    return lambda rng: car(rng, **numbers)


# fmt: off
KINDS: dict[str, Build] = {
    "sedan": _car(),
    "hatchback": _car(cabin=(-0.48, 0.2, -0.38, 0.06, 0.15), wide=0.23, waist=0.19),
    "coupe": _car(cabin=(-0.42, 0.1, -0.16, -0.02, 0.1), waist=0.15, clear=0.045, extra="spoiler"),
    "wagon": _car(cabin=(-0.49, 0.16, -0.45, 0.04, 0.13), extra="rack"),
    "jeep": _car(cabin=(-0.47, 0.14, -0.45, 0.1, 0.17), clear=0.1, waist=0.24, wheel=0.1, wide=0.23,
        soft=0.02, extra="spare"),
    "van": _car(cabin=(-0.49, 0.36, -0.46, 0.16, 0.17), wide=0.22, waist=0.2, hood=0.85),
    "minibus": _car(cabin=(-0.49, 0.46, -0.45, 0.36, 0.17), wide=0.21, waist=0.21, soft=0.06),
    "convertible": _car(cabin=None, waist=0.17, clear=0.05),
    "taxi": _car(cabin=(-0.34, 0.14, -0.26, 0.04, 0.17), waist=0.2, soft=0.06, extra="sign"),
    "limousine": _car(cabin=(-0.4, 0.24, -0.34, 0.16, 0.1), wide=0.15, waist=0.13, wheel=0.055, clear=0.04),
    "beetle": beetle,
    "oldtimer": oldtimer,
}
# fmt: on
