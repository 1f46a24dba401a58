"""What trucks carry. A load lies from `rear` to `front` along x, on a deck at height `deck`.

`wide` is half the width of the truck, `tall` the height of its cab.
"""

import numpy as np

from capsnet.data.toyviews.solids import Ball, Body, Box, Drum, Limb


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
