"""People: one skeleton in many postures, builds and things carried. Those who bow or crouch look like animals
from above.

Letters of a posture, in degrees: lean of the trunk forward; for each limb, pitch forward of its upper bone
from hanging down, bend of its lower bone (knees bend back, elbows forward), spread to the side.
"""

from dataclasses import dataclass

import numpy as np

from capsnet.data.toyviews.animals import Build
from capsnet.data.toyviews.solids import Ball, Body, Box, Drum, Limb, Part, Vector

Joint = tuple[float, float, float]  # pitch, bend, spread


@dataclass(frozen=True)
class Posture:
    lean: float
    legs: tuple[Joint, Joint]  # left, right
    arms: tuple[Joint, Joint]
    thing: str = ""


POSTURES: dict[str, Posture] = {
    "standing": Posture(0, ((0, 0, 5), (0, 0, 5)), ((0, 8, 12), (0, 8, 12))),
    "walking": Posture(6, ((28, 8, 2), (-22, 18, 2)), ((-28, 20, 8), (30, 25, 8))),
    "cheering": Posture(-3, ((0, 0, 12), (0, 0, 12)), ((165, 10, 25), (165, 10, 25))),
    "spread": Posture(0, ((0, 0, 14), (0, 0, 14)), ((0, 0, 88), (0, 0, 88))),
    "sitting": Posture(-4, ((82, 80, 10), (82, 80, 10)), ((35, 40, 10), (35, 40, 10)), "seat"),
    "running": Posture(18, ((62, 65, 2), (-35, 60, 2)), ((-55, 80, 10), (50, 85, 10))),
    "crouching": Posture(38, ((78, 105, 10), (70, 100, 10)), ((45, 30, 8), (30, 40, 8))),
    "bowing": Posture(55, ((4, 4, 8), (4, 4, 8)), ((-5, 10, 8), (-5, 10, 8))),
    "soldier": Posture(4, ((12, 5, 10), (-12, 5, 10)), ((62, 30, 5), (50, 55, 5)), "rifle"),
    "hiker": Posture(10, ((22, 12, 4), (-18, 12, 4)), ((40, 35, 10), (-15, 25, 10)), "pack"),
    "lady": Posture(0, ((0, 0, 4), (0, 0, 4)), ((10, 45, 30), (0, 10, 22)), "skirt"),
    "pointing": Posture(0, ((6, 0, 8), (-6, 0, 8)), ((88, 0, 0), (0, 95, 35)), "hat"),
    "kneeling": Posture(6, ((88, 88, 6), (4, 92, 6)), ((60, 20, 6), (15, 60, 10)), "hat"),
    "carrier": Posture(-8, ((8, 4, 8), (-8, 4, 8)), ((60, 30, 4), (60, 30, 4)), "crate"),
}


def _down(start: Vector, pitch: float, spread: float, length: float) -> Vector:
    a, s = np.radians(pitch), np.radians(spread)
    return (
        start[0] + length * float(np.sin(a) * np.cos(s)),
        start[1] + length * float(np.sin(s)),
        start[2] - length * float(np.cos(a) * np.cos(s)),
    )


def person(rng: np.random.Generator, posture: Posture) -> Body:
    def vary(value: float, by: float = 0.14) -> float:
        return value * float(rng.uniform(1 - by, 1 + by))

    def shake(joint: Joint) -> Joint:
        pitch, bend, spread = (angle + float(rng.uniform(-9, 9)) for angle in joint)
        return pitch, max(bend, 0.0), max(spread, 1.0)

    stout = float(rng.uniform(0.85, 1.45))
    thigh, shin, trunk = vary(0.42), vary(0.42), vary(0.48)
    upper, fore, skull = vary(0.3), vary(0.28), vary(0.125, 0.25)
    lean = posture.lean + float(rng.uniform(-5, 5))
    tilt = np.radians(lean)
    ahead, up = float(np.sin(tilt)), float(np.cos(tilt))
    hips: Vector = (0.0, 0.0, 0.0)
    chest: Vector = (trunk * ahead, 0.0, trunk * up)
    neck: Vector = (chest[0] + 0.1 * ahead, 0.0, chest[2] + 0.1 * up)
    gaze = np.radians(0.6 * lean)
    crown: Vector = (
        neck[0] + 0.95 * skull * float(np.sin(gaze)),
        0.0,
        neck[2] + 0.95 * skull * float(np.cos(gaze)),
    )
    broad = 0.17 * stout**0.5
    flesh: list[Part] = [
        Ball(centre=hips, radii=(0.115 * stout, 0.15 * stout, 0.13), turn=(0, lean, 0)),
        Limb(a=hips, b=chest, ra=0.115 * stout, rb=0.12 * stout),
        Limb(a=(chest[0], -broad, chest[2]), b=(chest[0], broad, chest[2]), ra=0.085, rb=0.085),
        Limb(a=chest, b=crown, ra=0.07, rb=0.06),
    ]
    hands: list[Vector] = []
    for side, leg, arm in ((1.0, posture.legs[0], posture.arms[0]), (-1.0, posture.legs[1], posture.arms[1])):
        pitch, bend, spread = shake(leg)
        hip = (0.0, side * 0.1 * stout, 0.0)
        knee = _down(hip, pitch, side * spread, thigh)
        ankle = _down(knee, pitch - bend, 0.5 * side * spread, shin)
        # A foot lies flat, unless its leg is thrown back.
        toe = _down(ankle, max(pitch - bend + 80, 88 if bend < 60 or pitch > 50 else 0), side * 12, 0.13)
        flesh += [
            Limb(a=hip, b=knee, ra=0.1 * stout, rb=0.07),
            Limb(a=knee, b=ankle, ra=0.07, rb=0.05),
            Limb(a=ankle, b=toe, ra=0.055, rb=0.045),
        ]
        pitch, bend, spread = shake(arm)
        shoulder = (chest[0], side * (broad + 0.03), chest[2])
        elbow = _down(shoulder, pitch, side * spread, upper)
        hand = _down(elbow, pitch + bend, 0.6 * side * spread, fore)
        hands.append(hand)
        flesh += [
            Limb(a=shoulder, b=elbow, ra=0.06, rb=0.05),
            Limb(a=elbow, b=hand, ra=0.05, rb=0.04),
            Ball(centre=hand, radii=(0.055, 0.05, 0.055)),
        ]
    body = Body()
    body.add(*flesh, blend=0.05)
    body.add(
        Ball(centre=crown, radii=(0.95 * skull, 0.85 * skull, 1.1 * skull)),
        Ball(centre=(crown[0] + skull * 0.95, 0, crown[2] - 0.1 * skull), radii=(0.03, 0.025, 0.035)),
        blend=0.02,
    )
    _carry(rng, body, posture.thing, hands, chest, crown, skull, (thigh, shin))
    return body


def _carry(
    rng: np.random.Generator,
    body: Body,
    thing: str,
    hands: list[Vector],
    chest: Vector,
    crown: Vector,
    skull: float,
    bones: tuple[float, float],
) -> None:
    if not thing and rng.random() < 0.35:
        thing = "hat"
    size = float(rng.uniform(0.85, 1.2))
    right = hands[1]
    if thing == "seat":
        tall = 0.9 * bones[1] / 2
        body.add(Box(centre=(-0.02, 0, -0.11 - tall), half=(0.2 * size, 0.22 * size, tall), albedo=0.8))
    elif thing == "rifle":
        butt = (right[0] - 0.25, right[1], right[2] - 0.05)
        body.add(Limb(a=butt, b=(butt[0] + 0.85 * size, 0.6 * butt[1], butt[2] + 0.15), ra=0.04, rb=0.025))
    elif thing == "pack":
        at = (chest[0] - 0.2, 0.0, chest[2] - 0.12)
        body.add(Box(centre=at, half=(0.11 * size, 0.16 * size, 0.2 * size), round=0.06, turn=(0, 10, 0)))
        body.add(
            Limb(
                a=(right[0], right[1], right[2] + 0.2), b=(right[0] + 0.1, right[1], -0.8), ra=0.025, rb=0.02
            )
        )
    elif thing == "skirt":
        body.add(Limb(a=(0, 0, 0.05), b=(0, 0, -0.42 * size), ra=0.14, rb=0.28 * size))
    elif thing == "crate":
        at = ((hands[0][0] + right[0]) / 2 + 0.06, 0.0, (hands[0][2] + right[2]) / 2 + 0.08)
        body.add(Box(centre=at, half=(0.13 * size, 0.2 * size, 0.13 * size)))
    elif thing == "hat":
        brim = (crown[0], 0.0, crown[2] + 0.55 * skull)
        body.add(
            Drum(centre=brim, radius=1.6 * skull * size, half=0.02, turn=(0, 0, 90)),
            Drum(
                centre=(brim[0], 0, brim[2] + 0.5 * skull),
                radius=0.85 * skull,
                half=0.6 * skull,
                turn=(0, 0, 90),
            ),
        )
    if rng.random() < 0.3 and thing != "seat":
        foot = -sum(bones) - 0.08
        body.add(Drum(centre=(0, 0, foot), radius=0.33 * size, half=0.03, turn=(0, 0, 90)))


def _pose(name: str) -> Build:
    return lambda rng: person(rng, POSTURES[name])


KINDS: dict[str, Build] = {name: _pose(name) for name in POSTURES}
