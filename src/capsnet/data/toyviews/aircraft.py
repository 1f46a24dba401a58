"""Airplanes: fuselage, wings, tail and engines, from gliders to deltas.

A plane is its numbers. wing: (root chord, tip chord, half span, sweep of the leading edge, place of the
root's leading edge along x). Lengths are in units of the fuselage, which lies from -0.5 to 0.5.
"""

from typing import Any

import numpy as np

from capsnet.data.toyviews.animals import Build
from capsnet.data.toyviews.solids import Ball, Body, Box, Drum, Limb, Plate

Wing = tuple[float, float, float, float, float]


def _polygon(wing: Wing) -> tuple[tuple[float, float], ...]:
    root, tip, span, sweep, x = wing
    return ((x, -0.05), (x - sweep, span), (x - sweep - tip, span), (x - root, -0.05))


def airplane(
    rng: np.random.Generator,
    *,
    girth: float,
    wing: Wing,
    level: float = -0.3,
    dihedral: float = 4,
    second: float = 0.0,
    tail: str = "low",
    engines: str = "",
    gear: str = "nose",
    canard: bool = False,
    canopy: float = 1.0,
) -> Body:
    """level: height of the wing on the fuselage, -1 to 1. second: gap to a second wing, for biplanes."""

    def vary(value: float, by: float = 0.15) -> float:
        return value * float(rng.uniform(1 - by, 1 + by))

    girth = vary(girth)
    root, tip, span, sweep, place = wing
    root, tip, span = vary(root), vary(tip, 0.25), vary(span)
    sweep, place = vary(sweep, 0.25), place + float(rng.uniform(-0.04, 0.04))
    dihedral += float(rng.uniform(-2, 4))
    half = max(0.013, 0.05 * root)
    body = Body()
    stern = (-0.5, 0.0, 0.5 * girth)
    body.add(
        Limb(a=(0.42 - girth, 0, 0), b=(-0.1, 0, 0), ra=girth, rb=girth),
        Limb(a=(-0.05, 0, 0), b=stern, ra=girth, rb=max(0.25 * girth, 0.02)),
        Limb(a=(0.42 - girth, 0, 0), b=(vary(0.5, 0.08), 0, -0.1 * girth), ra=0.95 * girth, rb=0.35 * girth),
        blend=0.02,
    )
    if canopy:
        at = (vary(0.2, 0.4), 0, 0.75 * girth)
        body.add(Ball(centre=at, radii=(vary(0.11), 0.65 * girth, 0.75 * girth * canopy), albedo=0.75))
    z = level * girth
    corners = _polygon((root, tip, span, sweep, place))
    body.add(Plate(centre=(0, 0, z), corners=corners, half=half, turn=(0, 0, dihedral), mirrored=True))
    rise = float(np.tan(np.radians(dihedral)))
    if second:
        gap = vary(second)
        body.add(
            Plate(centre=(0.03, 0, z + gap), corners=corners, half=half, turn=(0, 0, dihedral), mirrored=True)
        )
        for y in (0.35 * span, 0.8 * span):
            x = place - sweep * y / span - 0.3 * root
            low = (x, y, z + rise * y)
            body.add(Limb(a=low, b=(x + 0.03, y, low[2] + gap), ra=0.014, rb=0.014, mirrored=True))
        body.add(
            Limb(
                a=(place - 0.3 * root, 0.5 * girth, 0),
                b=(place - 0.3 * root, girth, z + gap),
                ra=0.014,
                rb=0.014,
                mirrored=True,
            )
        )
    _tail(body, tail, vary(0.2), vary(0.17), girth)
    if canard:
        body.add(
            Plate(centre=(0, 0, 0.3 * girth), corners=_polygon((0.1, 0.05, 0.19, 0.08, 0.32)), mirrored=True)
        )
    _engines(rng, body, engines, girth, z, rise, (root, tip, span, sweep, place))
    _gear(body, gear, girth, vary(0.12), place - 0.6 * root)
    return body


def _tail(body: Body, kind: str, span: float, tall: float, girth: float) -> None:
    fin = ((-0.33, 0.0), (-0.44, tall), (-0.53, tall), (-0.51, 0.0))
    plane = ((-0.36, -0.03), (-0.43, span), (-0.51, span), (-0.5, -0.03))
    z = 0.4 * girth
    if kind == "twin":
        body.add(Plate(centre=(0.02, 0.8 * girth, 0), corners=fin, turn=(0, 0, 72), mirrored=True))
        body.add(Plate(centre=(0, 0, 0), corners=plane, mirrored=True))
    elif kind == "ends":
        body.add(Plate(centre=(0, 0, z), corners=plane, mirrored=True))
        body.add(Plate(centre=(-0.0, span, z - 0.25 * tall), corners=fin, turn=(0, 0, 90), mirrored=True))
    elif kind == "vee":
        body.add(Plate(centre=(0, 0, z), corners=plane, turn=(0, 0, 38), mirrored=True))
    else:
        body.add(Plate(centre=(0, 0, z), corners=fin, turn=(0, 0, 90)))
        if kind != "none":
            at = tall + z - 0.02 if kind == "tee" else z
            body.add(Plate(centre=(-0.02 if kind == "tee" else 0, 0, at), corners=plane, mirrored=True))


def _propeller(body: Body, x: float, y: float, z: float, size: float, angle: float) -> None:
    for turn in (angle, angle + 90):
        body.add(
            Box(centre=(x, y, z), half=(0.012, 0.02, size), round=0.01, turn=(0, 0, turn), mirrored=y > 0)
        )
    body.add(Ball(centre=(x, y, z), radii=(0.04, 0.025, 0.025), mirrored=y > 0))


def _engines(
    rng: np.random.Generator, body: Body, kind: str, girth: float, z: float, rise: float, wing: Wing
) -> None:
    root, _, span, sweep, place = wing
    size, angle = float(rng.uniform(0.038, 0.05)), float(rng.uniform(0, 90))
    if kind == "nose":
        body.add(Drum(centre=(0.47, 0, 0), radius=0.8 * girth, half=0.04, turn=(90, 0, 0)))
        _propeller(body, 0.53, 0, 0, float(rng.uniform(0.11, 0.15)), angle)
    elif kind == "rear":
        at = (-0.27, girth + 0.9 * size, 0.45 * girth)
        body.add(
            Limb(a=(at[0] + 0.09, *at[1:]), b=(at[0] - 0.07, *at[1:]), ra=size, rb=0.7 * size, mirrored=True)
        )
    elif kind:
        stations = (0.35, 0.65) if kind.endswith("4") else (0.4,)
        for part in stations:
            y, x = part * span, place - part * sweep
            if kind.startswith("jet"):
                low = z + rise * y - 1.2 * size
                body.add(
                    Limb(a=(x + 0.06, y, low), b=(x - 0.1, y, low), ra=size, rb=0.75 * size, mirrored=True)
                )
            else:
                low = z + rise * y
                body.add(
                    Limb(
                        a=(x + 0.06, y, low),
                        b=(x - 0.6 * root, y, low),
                        ra=size,
                        rb=0.5 * size,
                        mirrored=True,
                    )
                )
                _propeller(body, x + 0.12, y, low, 0.09, angle)


def _gear(body: Body, kind: str, girth: float, leg: float, x: float) -> None:
    low = -girth - 0.5 * leg
    if kind == "floats":
        low -= 0.05
        body.add(
            Limb(a=(0.4, 0.17, low + 0.03), b=(-0.3, 0.17, low + 0.02), ra=0.045, rb=0.025, mirrored=True)
        )
        for at in (0.25, 0.0):
            body.add(Limb(a=(at, 0.5 * girth, 0), b=(at, 0.17, low), ra=0.013, rb=0.013, mirrored=True))
        return
    body.add(
        Limb(a=(x, 0.5 * girth, 0), b=(x, 0.12, low), ra=0.014, rb=0.014, mirrored=True),
        Drum(centre=(x, 0.12, low), radius=0.035, half=0.015, mirrored=True),
    )
    end = 0.33 if kind == "nose" else -0.42
    up = low if kind == "nose" else 0.1 * girth
    body.add(
        Limb(a=(end, 0, 0), b=(end, 0, up), ra=0.014, rb=0.014),
        Drum(centre=(end, 0, up), radius=0.03, half=0.015),
    )


def _plane(**numbers: Any) -> Build:
    return lambda rng: airplane(rng, **numbers)


# fmt: off
KINDS: dict[str, Build] = {
    "airliner": _plane(girth=0.07, wing=(0.2, 0.06, 0.46, 0.24, 0.13), engines="jet2", canopy=0),
    "jumbo": _plane(girth=0.085, wing=(0.24, 0.07, 0.5, 0.27, 0.16), engines="jet4", canopy=1.1),
    "trijet": _plane(girth=0.065, wing=(0.17, 0.06, 0.38, 0.18, 0.05), engines="rear", tail="tee",
        canopy=0),
    "fighter": _plane(girth=0.07, wing=(0.3, 0.07, 0.3, 0.24, 0.1), tail="twin", level=0.1, canopy=1.1),
    "delta": _plane(girth=0.06, wing=(0.6, 0.04, 0.33, 0.54, 0.18), tail="none", level=-0.2, dihedral=0),
    "canard": _plane(girth=0.065, wing=(0.42, 0.06, 0.34, 0.34, 0.0), tail="none", canard=True, level=-0.1,
        dihedral=0),
    "biplane": _plane(girth=0.075, wing=(0.17, 0.16, 0.44, 0.02, 0.26), second=0.2, level=-0.7,
        engines="nose", gear="tail", canopy=0.7),
    "high wing": _plane(girth=0.085, wing=(0.16, 0.13, 0.55, 0.02, 0.2), level=1.0, engines="nose",
        dihedral=1),
    "spitfire": _plane(girth=0.065, wing=(0.22, 0.09, 0.5, 0.06, 0.2), level=-0.6, engines="nose",
        gear="tail"),
    "glider": _plane(girth=0.055, wing=(0.12, 0.06, 0.85, 0.02, 0.16), level=0.6, tail="tee"),
    "bomber": _plane(girth=0.075, wing=(0.2, 0.1, 0.6, 0.08, 0.18), engines="prop4", tail="ends",
        gear="tail", canopy=1.2),
    "twin": _plane(girth=0.075, wing=(0.18, 0.1, 0.48, 0.04, 0.16), engines="prop2", level=-0.5),
    "seaplane": _plane(girth=0.08, wing=(0.18, 0.15, 0.55, 0.02, 0.22), level=0.95, engines="nose",
        gear="floats"),
    "forward": _plane(girth=0.065, wing=(0.22, 0.08, 0.38, -0.2, -0.05), tail="vee", engines="rear"),
}
# fmt: on
