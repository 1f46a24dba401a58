"""The two novel-viewpoint protocols of Hinton et al. 2018 (section 6.1), for smallNORB and for toyviews.

azimuth: train on 300, 320, 340, 0, 20 and 40 degrees, test on the other twelve azimuths.
elevation: train on the three lowest elevations, test on the six higher ones.

Masks are taken from info (n, 4): instance, elevation 0..8, azimuth 0, 2, .. 34 (tens of degrees), lighting.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsnet.errors import unknown_name

PROTOCOLS = ("azimuth", "elevation")
FAMILIAR_AZIMUTHS = (30, 32, 34, 0, 2, 4)
FAMILIAR_ELEVATIONS = (0, 1, 2)


def familiar_views(info: NDArray[Any], protocol: str) -> NDArray[np.bool_]:
    """True where the viewpoint is one to train on; novel viewpoints are all the others."""
    info = np.asarray(info)
    if protocol == "azimuth":
        return np.isin(info[:, 2], FAMILIAR_AZIMUTHS)
    if protocol == "elevation":
        return np.isin(info[:, 1], FAMILIAR_ELEVATIONS)
    raise unknown_name("novel-viewpoint protocol", protocol, PROTOCOLS)
