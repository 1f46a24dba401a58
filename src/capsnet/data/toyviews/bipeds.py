"""Animals that stand on two legs: dinosaurs, bears, birds. From many sides they pass for people.

Lengths are in units of the trunk, angles in degrees.
"""

import numpy as np

from capsnet.data.toyviews.solids import Ball, Body, Limb, Part, Vector, walk


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
    chest = walk(hips, lean, 0.6)
    crown = walk(chest, min(lean + 25, 90), neck + head)
    beak = walk(crown, float(rng.uniform(-15, 10)), snout + 0.5 * head)
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
            paw = walk(elbow, float(rng.uniform(-40, 30)), 0.5 * arm)
            flesh += [
                Limb(a=socket, b=elbow, ra=thick, rb=0.8 * thick),
                Limb(a=elbow, b=paw, ra=0.8 * thick, rb=0.6 * thick),
            ]
    if tail[0]:
        bend = walk(hips, 180 + float(rng.uniform(5, 30)), 0.5 * tail[0])
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
