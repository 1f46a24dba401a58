"""Validation splits and limits: stratified, seeded, nothing twice, impossible numbers refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from capsnet.data.base import Split
from capsnet.data.splits import (
    STRETCHES,
    default_validation_count,
    limit,
    select_both,
    shares,
    split_validation,
    stretch_rows,
)
from capsnet.errors import CapsNetError


def numbered(labels: list[int]) -> Split:
    """Images whose pixels say which they are."""
    n = len(labels)
    images = torch.zeros(n, 1, 1, 2, dtype=torch.uint8)
    images[:, 0, 0, 0], images[:, 0, 0, 1] = torch.arange(n) // 256, torch.arange(n) % 256
    return Split(images, torch.tensor(labels, dtype=torch.long))


def numbers(split: Split) -> list[int]:
    return (split.images[:, 0, 0, 0].long() * 256 + split.images[:, 0, 0, 1]).tolist()


@given(st.lists(st.integers(0, 4), min_size=2, max_size=200), st.data())
def test_validation_partitions_the_images_in_proportion(labels: list[int], data: st.DataObject) -> None:
    split = numbered(labels)
    count = data.draw(st.integers(0, len(labels) - 1))
    train, validation = split_validation(split, count, seed=0)
    assert len(validation.labels) == count
    assert sorted(numbers(train) + numbers(validation)) == list(range(len(labels)))
    assert all(labels[n] == label for n, label in zip(numbers(validation), validation.labels, strict=True))


@given(st.lists(st.integers(1, 50), min_size=2, max_size=8), st.data())
def test_shares_are_within_one_of_the_exact_proportion_when_no_class_is_emptied(
    counts: list[int], data: st.DataObject
) -> None:
    total = data.draw(st.integers(0, sum(counts) // 2))
    share = shares(torch.tensor(counts), total)
    assert int(share.sum()) == total
    assert bool((share <= torch.tensor(counts)).all())
    if min(counts) > 4:
        exact = torch.tensor(counts) * total / sum(counts)
        assert float((share - exact).abs().max()) <= 1
        assert bool((share < torch.tensor(counts)).all())


def test_same_seed_same_split_other_seed_another() -> None:
    split = numbered([n % 3 for n in range(300)])
    first = numbers(split_validation(split, 30, seed=1)[1])
    assert numbers(split_validation(split, 30, seed=1)[1]) == first
    assert numbers(split_validation(split, 30, seed=2)[1]) != first


@pytest.mark.parametrize("seed", range(5))
def test_stretches_are_whole_and_apart(seed: int) -> None:
    split = numbered([n % 3 for n in range(1000)])
    train, validation = select_both(split, stretch_rows(len(split.labels), 200, seed))
    held_out = numbers(validation)
    assert sorted(numbers(train) + held_out) == list(range(1000))
    for part in range(STRETCHES):
        stretch = held_out[50 * part : 50 * (part + 1)]
        assert stretch == list(range(stretch[0], stretch[0] + 50))
        assert stretch[0] == held_out[0] + 250 * part


@pytest.mark.parametrize("count", [0, 3, 1000, 1200])
def test_impossible_stretches_are_refused(count: int) -> None:
    with pytest.raises(CapsNetError, match="stretches of validation images"):
        stretch_rows(1000, count, seed=0)


def test_fewer_validation_images_than_classes_are_allowed() -> None:
    train, validation = split_validation(numbered([0] * 30 + [1] * 20 + [2] * 10), 2, seed=0)
    assert validation.labels.tolist() == [0, 1]
    assert len(train.labels) == 58


@pytest.mark.parametrize("count", [-1, 10, 11])
def test_impossible_validation_counts_are_refused(count: int) -> None:
    with pytest.raises(CapsNetError, match=f"{count} of 10 images cannot be validation images"):
        split_validation(numbered([0, 1] * 5), count, seed=0)


def test_default_is_a_tenth_and_at_most_five_thousand() -> None:
    assert [default_validation_count(n) for n in (9, 500, 50_000, 60_000)] == [0, 50, 5000, 5000]


def test_limit_keeps_the_first_of_a_seeded_shuffle() -> None:
    split = numbered(list(range(100)))
    few, more = limit(split, 10, seed=5), limit(split, 50, seed=5)
    assert numbers(more)[:10] == numbers(few)
    assert len(set(numbers(more))) == 50
    assert numbers(limit(split, 10, seed=6)) != numbers(few)
    assert limit(split, None, seed=0) is split


@pytest.mark.parametrize("n", [0, -3, 101])
def test_impossible_limits_are_refused(n: int) -> None:
    with pytest.raises(CapsNetError, match=f"A limit of {n} images is not between 1 and the 100"):
        limit(numbered([0] * 100), n, seed=0)
