"""Whole groups held out: none on both sides, folds that are equal and fixed, and sentences for what cannot be."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from capsnet.data import load_dataset
from capsnet.data.base import DataSet, Split
from capsnet.data.hold_out import deal, hold_out
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError

FOLDS = [f"{part}/5" for part in range(1, 6)]


def make_data(labels: list[int], groups: list[int]) -> DataSet:
    """Images whose pixels say which they are and to which group they belong."""
    images = torch.tensor(list(zip(range(len(labels)), groups, strict=True)), dtype=torch.uint8)
    split = Split(images.view(-1, 1, 1, 2), torch.tensor(labels))
    names = tuple(f"class {label}" for label in range(max(labels) + 1))
    kinds = {"objects": torch.tensor(groups)}
    return DataSet("views", split, split, names, Preprocessing("picture", 255.0), (1, 1, 2), groups=kinds)


def numbers(split: Split | None) -> list[int]:
    assert split is not None
    return split.images[:, 0, 0, 0].tolist()


def groups_of(split: Split | None) -> set[int]:
    assert split is not None
    return set(split.images[:, 0, 0, 1].tolist())


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=80, max_size=200), st.data())
def test_no_group_is_on_both_sides(images: list[tuple[int, int]], data: st.DataObject) -> None:
    labels = [0, 1, 2] * 4 + [label for label, _ in images]
    groups = list(range(12)) + [12 + 4 * label + which for label, which in images]
    views = make_data(labels, groups)
    fold = data.draw(st.sampled_from([None, *FOLDS]))
    train, validation = hold_out(views, "objects", fold=fold, count=10, seed=data.draw(st.integers(0, 9)))
    assert not groups_of(train) & groups_of(validation)
    assert sorted(numbers(train) + numbers(validation)) == list(range(len(labels)))


# three classes of 7, 10 and 5 objects, 1 to 4 images each, stored in turn
OBJECTS = [(label, 10 * label + which) for label, n in enumerate((7, 10, 5)) for which in range(n)]
IMAGES = [(label, thing) for label, thing in OBJECTS for _ in range(1 + thing % 4)]
VIEWS = make_data([label for label, _ in IMAGES], [thing for _, thing in IMAGES])


def test_folds_are_parts_of_the_whole_and_the_same_for_every_seed_and_count() -> None:
    held_out = [numbers(hold_out(VIEWS, "objects", fold=fold)[1]) for fold in FOLDS]
    assert sorted(row for rows in held_out for row in rows) == list(range(len(IMAGES)))
    for fold, expected in zip(FOLDS, held_out, strict=True):
        assert numbers(hold_out(VIEWS, "objects", fold=fold, count=0, seed=3)[1]) == expected


def test_folds_share_the_objects_of_each_class_and_the_images_evenly() -> None:
    folds = [hold_out(VIEWS, "objects", fold=fold)[1] for fold in FOLDS]
    for label in range(3):
        objects = [sum(thing // 10 == label for thing in groups_of(fold)) for fold in folds]
        assert max(objects) - min(objects) <= 1
    sizes = [len(numbers(fold)) for fold in folds]
    assert max(sizes) - min(sizes) <= 4, "no more than the largest object"


def test_a_fold_of_single_images_has_all_classes_in_proportion() -> None:
    data = make_data([n % 4 for n in range(200)], [0] * 200)
    for fold in FOLDS:
        _, validation = hold_out(data, "images", fold=fold)
        assert validation is not None
        assert validation.labels.bincount().tolist() == [10] * 4


def test_a_fold_of_stretches_has_four_runs_of_the_stored_order() -> None:
    data = make_data([n % 2 for n in range(200)], [0] * 200)
    seen = []
    for fold in FOLDS:
        rows = numbers(hold_out(data, "stretches", fold=fold)[1])
        starts = [n for n in rows if n - 1 not in rows]
        assert [rows[k : k + 10] for k in range(0, 40, 10)] == [list(range(s, s + 10)) for s in starts]
        seen += rows
    assert sorted(seen) == list(range(200))


def test_a_seed_draws_at_least_one_object_of_each_class() -> None:
    drawn = {tuple(numbers(hold_out(VIEWS, "objects", count=3, seed=seed)[1])) for seed in range(4)}
    assert len(drawn) == 4
    for rows in drawn:
        objects = {IMAGES[row][1] for row in rows}
        assert sorted(thing // 10 for thing in objects) == [0, 1, 2]


def test_a_limit_keeps_groups_apart_and_a_fold_whole() -> None:
    train, validation = hold_out(VIEWS, "objects", count=5, kept=40, seed=1)
    assert len(numbers(train) + numbers(validation)) == 40
    assert not groups_of(train) & groups_of(validation)
    whole = hold_out(VIEWS, "objects", fold="2/5")
    few, validation = hold_out(VIEWS, "objects", fold="2/5", kept=10, seed=1)
    assert numbers(validation) == numbers(whole[1])
    assert set(numbers(few)) < set(numbers(whole[0]))
    assert len(numbers(few)) == 10


def test_nothing_held_out_is_the_whole() -> None:
    train, validation = hold_out(VIEWS, "objects", count=0)
    assert validation is None
    assert numbers(train) == list(range(len(IMAGES)))


def test_ways_that_are_not_there_are_refused_by_name() -> None:
    with pytest.raises(
        CapsNetError, match=r"no way to hold out images 'object' for 'views'; did you mean 'obj"
    ):
        hold_out(VIEWS, "object")
    with pytest.raises(CapsNetError, match="there are: images, objects, stretches"):
        hold_out(VIEWS, "hands")


def test_too_few_groups_for_the_parts_are_refused() -> None:
    data = make_data([0, 1, 0, 1], [0, 1, 2, 3])
    with pytest.raises(CapsNetError, match="'views' has 4 objects, too few for the 5 parts of 1/5"):
        hold_out(data, "objects", fold="1/5")


@pytest.mark.parametrize("asked", [{"fold": "1/2"}, {"count": 1}])
def test_a_class_is_never_held_out_whole(asked: dict) -> None:
    data = make_data([0, 0, 1, 1, 1], [0, 0, 1, 2, 2])
    with pytest.raises(CapsNetError, match="leaves no training images of class 'class 0'"):
        hold_out(data, "objects", **asked)


@pytest.fixture(scope="module")
def digits() -> DataSet:
    return load_dataset("mnist")


@pytest.fixture(scope="module")
def parts(digits: DataSet) -> Tensor:
    return deal(digits.train.labels, digits.groups["writers"], 5)


def test_folds_of_mnist_are_whole_writers_of_both_series(digits: DataSet, parts: Tensor) -> None:
    writers = digits.groups["writers"]
    for writer in writers.unique():
        assert len(parts[writers == writer].unique()) == 1
    for series in (writers < 2000, writers >= 2000):
        hands = [len(writers[series & (parts == part)].unique()) for part in range(5)]
        assert max(hands) - min(hands) <= 2, "of 50 or more; one round of dealing has writers of both"
        assert int(parts[series].bincount().max() - parts[series].bincount().min()) < 300
    assert int(parts.bincount().max() - parts.bincount().min()) <= 131, "the images of the largest writer"


@pytest.mark.parametrize("name", ["mnist", "multimnist", "affnist"])
def test_every_set_made_of_mnist_holds_out_its_writers(name: str, digits: DataSet, parts: Tensor) -> None:
    data = load_dataset(name)
    train, validation = hold_out(data, "writers", fold="2/5")
    assert validation is not None
    assert torch.equal(validation.labels, digits.train.labels[parts == 1])
    assert len(train.labels) + len(validation.labels) == 60_000
    _, drawn = hold_out(data, "writers", count=5000, seed=0)
    assert drawn is not None
    assert 5000 <= len(drawn.labels) < 5131, "the largest writer has 131 images"


def test_pictures_without_one_to_spare_are_all_trained_on_unless_some_are_asked_for() -> None:
    data = replace(make_data([0, 1], [0, 1]), units=("a", "b"))
    train, validation = hold_out(data)
    assert (numbers(train), validation) == ([0, 1], None)
    with pytest.raises(CapsNetError, match="None of the 2 training images of 'views' can be held out"):
        hold_out(data, count=1)
