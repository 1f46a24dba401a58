"""toyviews: a synthetic viewpoint set in smallNORB's design, made on the spot from one seed.

    make(folder)   24,300 training and 24,300 test stereo pairs 96x96, in some minutes
    load(folder)   the arrays, digests checked

5 categories x 10 instances (5 for training, 5 others for the test) x 9 elevations x 18 azimuths x 6
lightings.
"""

from capsnet.data.toyviews.design import Design
from capsnet.data.toyviews.generate import make
from capsnet.data.toyviews.shapes import CATEGORIES
from capsnet.data.toyviews.store import load

__all__ = ["CATEGORIES", "Design", "load", "make"]
