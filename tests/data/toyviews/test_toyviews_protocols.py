"""Hinton's novel-viewpoint protocols: the right views, in the right numbers."""

import numpy as np
import pytest

from capsnet.data.toyviews import Design, familiar_views
from capsnet.data.toyviews.design import factors
from capsnet.errors import CapsNetError


def test_azimuth_protocol_trains_on_six_azimuths_about_the_front() -> None:
    _, info = factors(Design(), "train", seed=0)
    familiar = familiar_views(info, "azimuth")
    degrees = info[:, 2].astype(int) * 10
    assert sorted(set(degrees[familiar])) == [0, 20, 40, 300, 320, 340]
    assert sorted(set(degrees[~familiar])) == list(range(60, 300, 20))
    assert familiar.sum() == 24_300 // 3


def test_elevation_protocol_trains_on_the_three_lowest() -> None:
    _, info = factors(Design(), "test", seed=0)
    familiar = familiar_views(info, "elevation")
    assert set(info[familiar, 1]) == {0, 1, 2}
    assert set(info[~familiar, 1]) == {3, 4, 5, 6, 7, 8}
    assert familiar.sum() == 24_300 // 3


def test_smallnorb_info_of_any_integer_type_is_taken() -> None:
    info = np.array([[4, 0, 34, 5], [6, 8, 6, 0]], dtype=np.int32)
    assert familiar_views(info, "azimuth").tolist() == [True, False]
    assert familiar_views(info, "elevation").tolist() == [True, False]


def test_an_unknown_protocol_names_the_nearest() -> None:
    with pytest.raises(CapsNetError, match="did you mean 'azimuth'"):
        familiar_views(np.zeros((1, 4), dtype=np.uint8), "azimut")
