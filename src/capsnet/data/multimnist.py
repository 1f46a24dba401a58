"""MultiMNIST: two overlapping digits of different classes on 36x36 (Sabour et al. 2017), made from MNIST as they are needed.

| split | images                     | classes | pixels  |
|-------|----------------------------|---------|---------|
| train | 60,000 x 10 pairs an epoch | 2 of 10 | 1x36x36 |
| test  | 10,000 x `pairs`           | 2 of 10 | 1x36x36 |

Two protocols of testing are in use, with two errors, of which results always have both. `sabour`: shifts of up to 4 pixels;
what is reported is the pair error (both digits must be right). `authors`, the program of Mazzia et al. 2021: shifts of up
to 6, which cut off some ink, each test image at one place in all its pairs; what is reported is the digit error (half
credit for one of two). The two digits are of different classes in both.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from capsnet.data.mnist import BUNDLED, CLASS_NAMES, mnist
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.registry import register_dataset
from capsnet.errors import CapsNetError, unknown_name

if TYPE_CHECKING:
    from capsnet.data.base import DataSet

PREPROCESSING = Preprocessing(kind="picture", divisor=255.0, light_on_dark=True)


@register_dataset(
    train_images=600_000,
    test_images=100_000,
    image_shape=(1, 36, 36),
    class_names=CLASS_NAMES,
    licence="CC BY-SA 3.0",
    find=lambda data_dir: BUNDLED,
)
def multimnist(
    data_dir: Path | None = None,
    shift: int | None = None,
    pairs: int = 10,
    protocol: str | None = None,
    digits: int = 2,
) -> "DataSet":
    """Two overlapping digits an image, made from MNIST (Sabour et al. 2017).

    Args:
        shift: how far each digit moves on both axes; the protocol's when left out.
        pairs: how many pairs each test image begins; the papers' test set has 1000.
        protocol: sabour, which is what is done when it is left out, or authors.
        digits: 1 for single digits in the same places, to train a teacher with.
    """
    from capsnet.data.pairs import PROTOCOL_SHIFTS, SIDE, PairDataSet

    if protocol is not None and protocol not in PROTOCOL_SHIFTS:
        raise unknown_name("protocol", protocol, PROTOCOL_SHIFTS, "of MultiMNIST")
    usual = PROTOCOL_SHIFTS[protocol or "sabour"]
    if protocol is not None and shift not in (None, usual):
        raise CapsNetError(
            f"The protocol {protocol} moves digits by {usual} pixels, not by {shift}: say shift={usual}, or leave one out."
        )
    shift = usual if shift is None else shift
    if digits not in (1, 2):
        raise CapsNetError(f"An image of MultiMNIST has 1 digit or 2, not {digits}.")
    if not 0 <= shift <= 8:
        raise CapsNetError(f"MultiMNIST's digits move by 0 to 8 pixels, not {shift}.")
    if pairs < 1:
        raise CapsNetError(f"MultiMNIST needs at least one test pair an image, not {pairs}.")
    single = mnist(data_dir)
    return PairDataSet(
        name="multimnist",
        train=single.train,
        test=single.test,
        class_names=CLASS_NAMES,
        preprocessing=PREPROCESSING,
        image_shape=(1, SIDE, SIDE),
        digests=single.digests,
        groups=single.groups,
        views=10,
        shift=shift,
        pairs=pairs,
        digits=digits,
        one_place=protocol == "authors",
    )
