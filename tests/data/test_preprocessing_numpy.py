"""Pre-processing without torch equals that with it."""

import numpy as np
import pytest
import torch

from capsnet.data.preprocessing import Preprocessing
from capsnet.data.preprocessing_numpy import apply_numpy
from capsnet.errors import CapsNetError

CASES = {
    "digit": Preprocessing("digit", 256.0),
    "standardised": Preprocessing(mean=(0.1, 0.2), std=(0.5, 0.1)),
    "smaller": Preprocessing(resize=(9, 14)),
    "larger": Preprocessing(resize=(40, 31)),
    "one way each": Preprocessing(resize=(12, 50)),
    "same size": Preprocessing(resize=(24, 20)),
    "crop": Preprocessing(crop=(7, 12)),
    "per image": Preprocessing(per_image=True),
    "all": Preprocessing("picture", 255.0, (0.5, 0.25), (0.2, 0.1), (16, 16), (12, 10), True, True),
}


@pytest.mark.parametrize("preprocessing", CASES.values(), ids=CASES.keys())
def test_equals_torch(preprocessing):
    images = torch.randint(0, 256, (3, 2, 24, 20)).to(torch.uint8)
    images[2] = 7
    got = apply_numpy(preprocessing, images.numpy())
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, preprocessing.apply(images).numpy(), atol=2e-6, rtol=1e-5)


def test_a_crop_larger_than_the_image_is_refused():
    with pytest.raises(CapsNetError, match="A crop of 9x9 does not fit into pictures of 8x8"):
        apply_numpy(Preprocessing(crop=(9, 9)), np.zeros((1, 1, 8, 8), dtype=np.uint8))
