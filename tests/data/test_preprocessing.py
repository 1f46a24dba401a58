"""Pre-processing: each step's values, JSON there and back, and what is refused."""

import json
import subprocess
import sys

import pytest
import torch

from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError

FULL = Preprocessing("picture", 255.0, (0.5, 0.25), (0.2, 0.1), (64, 64), (48, 40), True, True)


def test_divides_only_by_default() -> None:
    images = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    torch.testing.assert_close(Preprocessing(divisor=256.0).apply(images), images.float() / 256)


def test_standardises_each_channel() -> None:
    images = torch.full((2, 2, 4, 4), 51, dtype=torch.uint8)
    out = Preprocessing(mean=(0.1, 0.2), std=(0.5, 0.1)).apply(images)
    torch.testing.assert_close(out[:, 0], torch.full((2, 4, 4), 0.2))
    torch.testing.assert_close(out[:, 1], torch.zeros(2, 4, 4))


def test_resizes_with_antialiasing_and_leaves_the_right_size_alone() -> None:
    stripes = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    stripes[..., ::2] = 255
    out = Preprocessing(resize=(4, 4)).apply(stripes)
    assert out.shape == (1, 1, 4, 4)
    torch.testing.assert_close(out[..., 1:3], torch.full((1, 1, 4, 2), 0.5), atol=0.01, rtol=0)
    assert torch.equal(Preprocessing(resize=(8, 8)).apply(stripes), stripes / 255)


def test_crops_the_centre() -> None:
    images = torch.arange(36, dtype=torch.uint8).view(1, 1, 6, 6)
    out = Preprocessing(divisor=1.0, crop=(2, 4)).apply(images)
    assert torch.equal(out, images[..., 2:4, 1:5].float())


def test_per_image_gives_zero_mean_and_unit_deviation_and_zeros_for_a_flat_image() -> None:
    images = torch.randint(0, 256, (3, 2, 8, 8)).to(torch.uint8)
    images[2] = 7
    out = Preprocessing(per_image=True).apply(images)
    torch.testing.assert_close(out.mean(dim=(1, 2, 3)), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(out[:2].std(dim=(1, 2, 3), correction=0), torch.ones(2))
    torch.testing.assert_close(out[2], torch.zeros(2, 8, 8), atol=1e-6, rtol=0)


@pytest.mark.parametrize("preprocessing", [Preprocessing(), Preprocessing("digit", 256.0), FULL])
def test_json_there_and_back_is_equal(preprocessing: Preprocessing) -> None:
    assert Preprocessing.from_dict(json.loads(json.dumps(preprocessing.to_dict()))) == preprocessing


def test_json_may_write_a_float_without_its_point() -> None:
    assert Preprocessing.from_dict({"kind": "digit", "divisor": 256}) == Preprocessing("digit", 256.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "sound"}, "kind is one of digit, picture, not 'sound'"),
        ({"colour": 1}, "has no field 'colour'"),
        ({"divisor": 0}, "divisor is above 0"),
        ({"divisor": float("nan")}, "divisor is above 0"),
        ({"divisor": None}, "divisor cannot be None"),
        ({"divisor": "many"}, "divisor cannot be 'many'"),
        ({"mean": [0.1]}, "a mean and a std for the same channels"),
        ({"mean": [0.1], "std": [0.0]}, "std is above 0"),
        ({"mean": 3, "std": [1.0]}, "mean cannot be 3"),
        ({"crop": [4]}, "crop cannot be .4."),
        ({"resize": [0, 4]}, "resize is at least one pixel"),
    ],
)
def test_bad_values_are_refused_by_name(values: dict, message: str) -> None:
    with pytest.raises(CapsNetError, match=message):
        Preprocessing.from_dict(values)


def test_a_crop_larger_than_the_image_is_refused() -> None:
    with pytest.raises(CapsNetError, match="A crop of 9x9 does not fit into pictures of 8x8"):
        Preprocessing(crop=(9, 9)).apply(torch.zeros(1, 1, 8, 8, dtype=torch.uint8))


def test_listing_data_and_reading_pictures_do_not_import_torch() -> None:
    code = (
        "import sys, capsnet.data, capsnet.data.pictures, capsnet.data.preprocessing;"
        "capsnet.data.list_datasets(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
