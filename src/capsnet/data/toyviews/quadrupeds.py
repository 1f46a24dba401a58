"""Animals on four legs: trunk, legs, neck, head and tail, and what tells an elephant from a camel.

Lengths are in units of the trunk, angles in degrees.
"""

import numpy as np

from capsnet.data.toyviews.solids import Ball, Body, Limb, Part, Vector, walk


def _leg(hip: Vector, swing: float, thick: float, foot: float) -> list[Part]:
    """Two bones from the hip to the ground, the foot `swing` ahead of it."""
    knee = (hip[0] + 0.6 * swing + 0.03, hip[1], 0.48 * hip[2])
    ankle = (hip[0] + swing, hip[1], 0.6 * thick)
    toe = (ankle[0] + foot, ankle[1], 0.6 * thick)
    return [
        Limb(a=hip, b=knee, ra=1.5 * thick, rb=thick),
        Limb(a=knee, b=ankle, ra=thick, rb=0.75 * thick),
        Limb(a=ankle, b=toe, ra=0.75 * thick, rb=0.7 * thick),
    ]


def quadruped(
    rng: np.random.Generator,
    *,
    leg: float,
    girth: float,
    thick: float,
    neck: tuple[float, float, float],
    head: float,
    snout: tuple[float, float],
    tail: tuple[float, float, float],
    ears: float = 0.08,
    horns: float = 0.0,
    trunk: float = 0.0,
    hump: float = 0.0,
    mane: float = 0.0,
    shell: float = 0.0,
    plates: int = 0,
    sprawl: float = 0.0,
    rise: float = 0.0,
) -> Body:
    """neck: length, pitch, radius. snout: length, pitch. tail: length, pitch, radius.

    rise: of the shoulders over the hips. sprawl: how far the feet stand to the side.
    """

    def vary(value: float, by: float = 0.18) -> float:
        return value * float(rng.uniform(1 - by, 1 + by))

    leg, girth, thick, head = vary(leg), vary(girth), vary(thick), vary(head, 0.12)
    neck_pitch = neck[1] + float(rng.uniform(-14, 14))
    body = Body()
    low = leg + 0.55 * girth
    rump: Vector = (-0.42, 0.0, low)
    chest: Vector = (0.42, 0.0, low + vary(rise))
    flesh: list[Part] = [
        Limb(a=rump, b=chest, ra=0.86 * girth, rb=0.95 * girth),
        Ball(centre=(-0.04, 0, low - 0.1 * girth + 0.5 * rise), radii=(0.42, 1.02 * girth, vary(girth))),
    ]
    wide = 0.55 * girth + sprawl
    stride = float(rng.uniform(0.04, 0.22)) * (leg + 0.1)
    for x, sign in ((rump[0], 1.0), (chest[0], -1.0)):
        height = low if x < 0 else chest[2]
        for side in (-1.0, 1.0):
            hip = (x, side * wide, height - 0.35 * girth)
            flesh += _leg(hip, sign * side * stride, thick, 0.5 * thick)
    shoulder = (chest[0] + 0.1 * girth, 0.0, chest[2] + 0.25 * girth)
    nape = walk(shoulder, neck_pitch, vary(neck[0]))
    flesh.append(Limb(a=shoulder, b=nape, ra=max(0.55 * girth, neck[2]), rb=neck[2]))
    turned = float(rng.uniform(-0.08, 0.08))
    muzzle = walk(nape, snout[1] + float(rng.uniform(-10, 10)), vary(snout[0]) + 0.4 * head, turned)
    flesh += [
        Ball(centre=nape, radii=(1.15 * head, 0.9 * head, head)),
        Limb(a=nape, b=muzzle, ra=0.75 * head, rb=0.5 * head),
    ]
    middle = walk(rump, 180 - tail[1], 0.55 * tail[0] + 0.8 * girth)
    tip = walk(
        middle, 180 - tail[1] + float(rng.uniform(0, 35)), 0.5 * tail[0], float(rng.uniform(-0.2, 0.2))
    )
    flesh += [
        Limb(a=rump, b=middle, ra=tail[2], rb=0.7 * tail[2]),
        Limb(a=middle, b=tip, ra=0.7 * tail[2], rb=0.03),
    ]
    if hump:
        flesh.append(Ball(centre=(0.0, 0, low + 0.95 * girth), radii=(0.2, 0.5 * girth, vary(hump))))
    if mane:
        flesh.append(Ball(centre=(nape[0] - 0.07, 0, nape[2] - 0.05), radii=(0.15, mane, mane)))
    body.add(*flesh, blend=0.07)
    if ears:
        size = vary(ears, 0.3)
        at = (nape[0] - 0.3 * head, 0.75 * head, nape[2] + 0.7 * head)
        body.add(
            Limb(
                a=at,
                b=(at[0] - 0.3 * size, at[1] + 0.4 * size, at[2] + size),
                ra=0.05,
                rb=0.03,
                mirrored=True,
            )
        )
    if horns:
        size = vary(horns)
        at = (nape[0], 0.5 * head, nape[2] + 0.8 * head)
        out = (at[0] + 0.05, at[1] + 0.6 * size, at[2] + 0.3 * size)
        body.add(
            Limb(a=at, b=out, ra=0.045, rb=0.035, mirrored=True),
            Limb(
                a=out, b=(out[0] + 0.5 * size, out[1], out[2] + 0.6 * size), ra=0.035, rb=0.02, mirrored=True
            ),
        )
    if trunk:
        elbow = walk(muzzle, -75, 0.55 * trunk)
        hand = walk(elbow, -75 + float(rng.uniform(0, 110)), 0.5 * trunk)
        body.add(
            Limb(a=muzzle, b=elbow, ra=0.1, rb=0.075), Limb(a=elbow, b=hand, ra=0.075, rb=0.05), blend=0.03
        )
        flap = (nape[0] - 0.02, 1.1 * head, nape[2])
        body.add(Ball(centre=flap, radii=(0.05, 0.22, 0.26), turn=(-35, 0, 0), mirrored=True))
        body.add(
            Limb(
                a=(muzzle[0], 0.1, muzzle[2]),
                b=(muzzle[0] + 0.25, 0.12, muzzle[2] - 0.08),
                ra=0.035,
                rb=0.02,
                mirrored=True,
            )
        )
    if shell:
        body.add(Ball(centre=(0, 0, low), radii=(0.62, vary(shell), vary(0.8 * shell))))
    for i in range(plates):
        x = -0.5 + i / max(plates - 1, 1)
        size = 0.24 - 0.2 * abs(x)
        body.add(Ball(centre=(x, 0, low + girth + 0.5 * size), radii=(0.6 * size, 0.035, size)))
    return body
