"""MultiMNIST: two overlapping digits of different classes on 36x36 (Sabour et al. 2017), made from MNIST as they are needed.

| split | images                     | classes | pixels  |
|-------|----------------------------|---------|---------|
| train | 60,000 x 10 pairs an epoch | 2 of 10 | 1x36x36 |
| test  | 10,000 x `pairs`           | 2 of 10 | 1x36x36 |
"""

from pathlib import Path
from typing import TYPE_CHECKING

from capsnet.data.mnist import BUNDLED, CLASS_NAMES, mnist
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.registry import register_dataset
from capsnet.errors import CapsNetError

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
def multimnist(data_dir: Path | None = None, shift: int = 4, pairs: int = 10) -> "DataSet":
    """Two overlapping digits an image, made from MNIST (Sabour et al. 2017).

    Args:
        shift: how far each digit moves on both axes; 6 in the program of Mazzia et al.
        pairs: how many pairs each test image begins; the papers' test set has 1000.
    """
    from capsnet.data.pairs import SIDE, PairDataSet

    if not 0 <= shift <= 8:
        raise CapsNetError(f"MultiMNIST's digits move by 0 to 8 pixels, not {shift}.")
    if pairs < 1:
        raise CapsNetError(f"MultiMNIST needs at least one test pair an image, not {pairs}.")
    digits = mnist(data_dir)
    return PairDataSet(
        name="multimnist",
        train=digits.train,
        test=digits.test,
        class_names=CLASS_NAMES,
        preprocessing=PREPROCESSING,
        image_shape=(1, SIDE, SIDE),
        digests=digits.digests,
        groups=digits.groups,
        views=10,
        shift=shift,
        pairs=pairs,
    )
