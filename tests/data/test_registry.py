"""Data sets by name."""

import pytest

import capsnet.data
from capsnet.data import get_dataset_info, list_datasets, load_dataset
from capsnet.errors import CapsNetError


def test_every_data_set_tells_what_it_is_without_being_read() -> None:
    names = [info.name for info in list_datasets()]
    assert names == sorted(names)
    assert {"mnist", "fashion_mnist"} <= set(names)
    for info in list_datasets():
        assert info.summary
        assert info.licence
        assert info.train_images > 0
        assert info.test_images > 0
        assert len(info.image_shape) == 3
        assert len(info.class_names) >= 2


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(CapsNetError, match="There is no data set 'minst'; did you mean 'mnist'"):
        load_dataset("minst")
    with pytest.raises(CapsNetError, match="There is no data set"):
        get_dataset_info("fashion")


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(CapsNetError, match="'mnist' has no option 'shift'; it has no options"):
        load_dataset("mnist", shift=4)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("multimnist", {"shift": "far"}, "The option shift of 'multimnist' is a whole number, not far"),
        ("multimnist", {"pairs": True}, "The option pairs of 'multimnist' is a whole number, not True"),
        ("multimnist", {"pairs": 1.5}, "The option pairs of 'multimnist' is a whole number, not 1.5"),
        ("toyviews", {"views": ["azimuth"]}, "The option views of 'toyviews' is a word, not"),
    ],
)
def test_a_value_of_another_kind_is_refused(name: str, options: dict, sentence: str) -> None:
    with pytest.raises(CapsNetError, match=sentence):
        load_dataset(name, **options)


def test_public_names_are_there() -> None:
    assert all(getattr(capsnet.data, name) is not None for name in capsnet.data.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = capsnet.data.nothing
