"""Test-time crops: Hinton's thirteen, even grids for any number, the centre for one."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from capsnet.data.patches import crop_offsets, patches
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError


def test_one_patch_is_the_centre_crop() -> None:
    images = torch.randint(0, 256, (3, 2, 96, 96)).to(torch.uint8)
    for per_image in (False, True):
        preprocessing = Preprocessing(resize=(64, 64), crop=(48, 48), per_image=per_image)
        torch.testing.assert_close(patches(images, preprocessing, 1)[0], preprocessing.apply(images))


def test_thirteen_are_hintons() -> None:
    offsets = crop_offsets((48, 48), (32, 32), 13)
    expected = {(8, 8)} | {(8 + y * k, 8 + x * k) for k in (1, 2, 3) for y in (-1, 1) for x in (-1, 1)}
    assert set(offsets) == expected
    assert offsets[0] == (8, 8)
    assert len(offsets) == 13


@given(st.integers(1, 200).filter(lambda n: n != 13))
def test_any_number_is_an_even_grid_about_the_centre(n: int) -> None:
    offsets = crop_offsets((64, 64), (48, 48), n)
    assert len(offsets) == n
    assert all(0 <= y <= 16 and 0 <= x <= 16 for y, x in offsets)
    assert abs(sum(y for y, _ in offsets) / n - 8) <= 1
    assert abs(sum(x for _, x in offsets) / n - 8) <= 1


def test_forty_are_six_rows_of_six_or_seven() -> None:
    offsets = crop_offsets((64, 64), (48, 48), 40)
    rows = sorted({y for y, _ in offsets})
    assert len(rows) == 6
    assert [sum(y == row for y, _ in offsets) for row in rows] == [7, 7, 7, 7, 6, 6]
    assert len(set(offsets)) == 40


def test_impossible_patches_are_refused() -> None:
    with pytest.raises(CapsNetError, match="0 crops"):
        crop_offsets((64, 64), (48, 48), 0)
    with pytest.raises(CapsNetError, match="cannot be taken"):
        crop_offsets((40, 40), (48, 48), 4)
    with pytest.raises(CapsNetError, match="6 spare pixels"):
        crop_offsets((52, 52), (48, 48), 13)
    with pytest.raises(CapsNetError, match="not cropped"):
        patches(torch.zeros(1, 1, 28, 28, dtype=torch.uint8), Preprocessing(), 4)
