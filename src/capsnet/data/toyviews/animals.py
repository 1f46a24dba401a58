"""Animals: most on four legs, some upright, so that posture alone does not tell them from people.

One kind a function argument set: `KINDS` maps a name to a function (rng) -> Body. Lengths are in units of the trunk.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from capsnet.data.toyviews.solids import Ball, Body, Limb, Part, Vector

Build = Callable[[np.random.Generator], Body]


def _walk(start: Vector, pitch: float, length: float, side: float = 0.0) -> Vector:
    """The end of a stick that starts at `start`; pitch 0 points forward, 90 up."""
    angle = np.radians(pitch)
    return (
        start[0] + length * float(np.cos(angle)),
        start[1] + side,
        start[2] + length * float(np.sin(angle)),
    )


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
    """neck: length, pitch, radius. snout: length, pitch. tail: length, pitch, radius. rise: shoulders over hips."""

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
    nape = _walk(shoulder, neck_pitch, vary(neck[0]))
    flesh.append(Limb(a=shoulder, b=nape, ra=max(0.55 * girth, neck[2]), rb=neck[2]))
    turned = float(rng.uniform(-0.08, 0.08))
    muzzle = _walk(nape, snout[1] + float(rng.uniform(-10, 10)), vary(snout[0]) + 0.4 * head, turned)
    flesh += [
        Ball(centre=nape, radii=(1.15 * head, 0.9 * head, head)),
        Limb(a=nape, b=muzzle, ra=0.75 * head, rb=0.5 * head),
    ]
    middle = _walk(rump, 180 - tail[1], 0.55 * tail[0] + 0.8 * girth)
    tip = _walk(
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
        elbow = _walk(muzzle, -75, 0.55 * trunk)
        hand = _walk(elbow, -75 + float(rng.uniform(0, 110)), 0.5 * trunk)
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


def upright(
    rng: np.random.Generator,
    *,
    lean: float,
    girth: float,
    leg: float,
    thick: float,
    arm: float,
    head: float,
    snout: float,
    tail: tuple[float, float],
    neck: float = 0.15,
    ears: float = 0.0,
    wings: bool = False,
) -> Body:
    """Two feet on the ground. lean: pitch of the spine, 90 is vertical. tail: length, radius."""
    lean += float(rng.uniform(-7, 7))
    girth *= float(rng.uniform(0.85, 1.2))
    leg *= float(rng.uniform(0.85, 1.2))
    hips: Vector = (0.0, 0.0, leg + 0.5 * girth)
    chest = _walk(hips, lean, 0.6)
    crown = _walk(chest, min(lean + 25, 90), neck + head)
    beak = _walk(crown, float(rng.uniform(-15, 10)), snout + 0.5 * head)
    flesh: list[Part] = [
        Limb(a=hips, b=chest, ra=girth, rb=0.72 * girth),
        Limb(a=chest, b=crown, ra=0.6 * girth, rb=0.7 * head),
        Ball(centre=crown, radii=(1.1 * head, 0.9 * head, head)),
        Limb(a=crown, b=beak, ra=0.7 * head, rb=0.4 * head),
    ]
    stride = float(rng.uniform(-0.15, 0.15))
    for side in (-1.0, 1.0):
        hip = (0.0, side * 0.7 * girth, hips[2])
        knee = (0.16 + side * stride, hip[1], 0.55 * hip[2])
        ankle = (-0.02 + side * stride, hip[1], 0.05)
        flesh += [
            Limb(a=hip, b=knee, ra=1.8 * thick, rb=1.1 * thick),
            Limb(a=knee, b=ankle, ra=1.1 * thick, rb=0.8 * thick),
            Limb(a=ankle, b=(ankle[0] + 0.2, 1.1 * hip[1], 0.04), ra=0.8 * thick, rb=0.7 * thick),
        ]
        if arm:
            socket = (chest[0], side * 0.65 * girth, chest[2] - 0.05)
            elbow = (socket[0] + 0.25 * arm, side * (0.75 * girth + 0.1), socket[2] - 0.5 * arm)
            paw = _walk(elbow, float(rng.uniform(-40, 30)), 0.5 * arm)
            flesh += [
                Limb(a=socket, b=elbow, ra=thick, rb=0.8 * thick),
                Limb(a=elbow, b=paw, ra=0.8 * thick, rb=0.6 * thick),
            ]
    if tail[0]:
        bend = _walk(hips, 180 + float(rng.uniform(5, 30)), 0.5 * tail[0])
        end = (bend[0] - 0.6 * tail[0], float(rng.uniform(-0.2, 0.2)), max(0.05, bend[2] - 0.2 * tail[0]))
        flesh += [
            Limb(a=hips, b=bend, ra=tail[1], rb=0.6 * tail[1]),
            Limb(a=bend, b=end, ra=0.6 * tail[1], rb=0.03),
        ]
    body = Body()
    body.add(*flesh, blend=0.07)
    if ears:
        at = (crown[0] - 0.03, 0.5 * head, crown[2] + 0.8 * head)
        body.add(
            Limb(a=at, b=(at[0] - 0.06, at[1] + 0.3 * ears, at[2] + ears), ra=0.05, rb=0.035, mirrored=True)
        )
    if wings:
        at = ((hips[0] + chest[0]) / 2 - 0.05, 1.0 * girth, (hips[2] + chest[2]) / 2)
        spread = float(rng.uniform(10, 40))
        body.add(Ball(centre=at, radii=(0.16, 0.05, 0.36), turn=(0, 0, spread), mirrored=True))
    return body


def _four(**numbers: Any) -> Build:
    return lambda rng: quadruped(rng, **numbers)


def _two(**numbers: Any) -> Build:
    return lambda rng: upright(rng, **numbers)


KINDS: dict[str, Build] = {
    "cow": _four(
        leg=0.42,
        girth=0.29,
        thick=0.07,
        neck=(0.3, 35, 0.16),
        head=0.15,
        snout=(0.2, -35),
        tail=(0.45, -65, 0.04),
        horns=0.2,
    ),
    "horse": _four(
        leg=0.62,
        girth=0.23,
        thick=0.055,
        neck=(0.5, 55, 0.11),
        head=0.11,
        snout=(0.3, -40),
        tail=(0.5, -60, 0.07),
        ears=0.12,
    ),
    "giraffe": _four(
        leg=0.75,
        girth=0.21,
        thick=0.05,
        neck=(0.95, 68, 0.075),
        head=0.1,
        snout=(0.2, -25),
        tail=(0.4, -70, 0.03),
        rise=0.12,
        ears=0.12,
    ),
    "elephant": _four(
        leg=0.45,
        girth=0.37,
        thick=0.12,
        neck=(0.22, 25, 0.2),
        head=0.22,
        snout=(0.12, -50),
        tail=(0.35, -70, 0.03),
        trunk=0.65,
        ears=0,
    ),
    "dog": _four(
        leg=0.42,
        girth=0.19,
        thick=0.055,
        neck=(0.25, 55, 0.11),
        head=0.14,
        snout=(0.18, -12),
        tail=(0.5, 40, 0.045),
        ears=0.16,
    ),
    "crocodile": _four(
        leg=0.12,
        girth=0.19,
        thick=0.06,
        neck=(0.18, 5, 0.13),
        head=0.13,
        snout=(0.5, -3),
        tail=(1.1, -4, 0.13),
        ears=0,
        sprawl=0.14,
    ),
    "lion": _four(
        leg=0.38,
        girth=0.22,
        thick=0.075,
        neck=(0.22, 45, 0.15),
        head=0.15,
        snout=(0.1, -15),
        tail=(0.75, 15, 0.035),
        mane=0.25,
        ears=0.05,
    ),
    "turtle": _four(
        leg=0.14,
        girth=0.22,
        thick=0.09,
        neck=(0.35, 20, 0.1),
        head=0.13,
        snout=(0.06, 0),
        tail=(0.2, -10, 0.05),
        ears=0,
        sprawl=0.2,
        shell=0.5,
    ),
    "camel": _four(
        leg=0.65,
        girth=0.24,
        thick=0.055,
        neck=(0.6, 40, 0.09),
        head=0.11,
        snout=(0.2, -15),
        tail=(0.35, -70, 0.03),
        hump=0.24,
    ),
    "stegosaur": _four(
        leg=0.32,
        girth=0.28,
        thick=0.09,
        neck=(0.4, -5, 0.12),
        head=0.1,
        snout=(0.15, -15),
        tail=(0.95, -8, 0.14),
        ears=0,
        plates=7,
    ),
    "sauropod": _four(
        leg=0.42,
        girth=0.29,
        thick=0.1,
        neck=(0.95, 42, 0.1),
        head=0.1,
        snout=(0.12, -10),
        tail=(1.15, -12, 0.15),
        ears=0,
    ),
    "pig": _four(
        leg=0.22,
        girth=0.3,
        thick=0.07,
        neck=(0.18, 10, 0.2),
        head=0.19,
        snout=(0.14, -10),
        tail=(0.15, 30, 0.03),
        ears=0.12,
    ),
    "tyrannosaur": _two(
        lean=35, girth=0.24, leg=0.45, thick=0.08, arm=0.25, head=0.17, snout=0.25, tail=(1.0, 0.18)
    ),
    "kangaroo": _two(
        lean=62,
        girth=0.23,
        leg=0.35,
        thick=0.075,
        arm=0.35,
        head=0.13,
        snout=0.14,
        tail=(0.9, 0.11),
        ears=0.2,
    ),
    "bear": _two(
        lean=86, girth=0.27, leg=0.32, thick=0.1, arm=0.45, head=0.18, snout=0.1, tail=(0, 0), ears=0.06
    ),
    "penguin": _two(
        lean=88, girth=0.26, leg=0.1, thick=0.06, arm=0, head=0.16, snout=0.14, tail=(0.25, 0.1), wings=True
    ),
}
