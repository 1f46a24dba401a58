"""Splits by content: adding a file moves no other, duplicates and groups stay together, every class is on both sides."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from capsnet.data import load_dataset
from capsnet.data.base import DataSet
from capsnet.data.content_split import find_units, set_aside_by_content
from capsnet.data.hold_out import hold_out, hold_out_rows
from capsnet.errors import CapsNetError


def noise(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 20), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 pictures of three classes, of 20 objects each, five of an object."""
    place = tmp_path_factory.mktemp("own")
    for label, name in enumerate(("ant", "bee", "cat")):
        for n in range(100):
            noise(place / name / f"{name}{n // 5}-{n % 5}.png", 1000 * label + n)
    return place


def parts(data: DataSet, seed: int = 0) -> dict[str, str]:
    """Where each file goes in a training, its validation part too."""
    rows, held_out = hold_out_rows(data, seed=seed)
    assert held_out is not None
    split = {data.manifest[row].file: "train" for row in rows.tolist()}
    split |= {data.manifest[row].file: "validation" for row in held_out.tolist()}
    return split | {entry.file: "test" for entry in data.manifest if entry.split == "test"}


ADDED = ("ant/ant500-0.png", "bee/bee3-9.png", "cat/aaa1-0.png", "cat/cat19-5.png")


def test_adding_one_file_to_300_leaves_every_other_in_its_split(folder: Path) -> None:
    before = parts(load_dataset(str(folder)))
    assert len(before) == 300
    for seed, name in enumerate(ADDED):
        added = noise(folder / name, 10_000 + seed)
        after = parts(load_dataset(str(folder)))
        added.unlink()
        assert len(after) == 301
        assert {file: after[file] for file in before} == before


def test_adding_one_file_to_300_in_groups_leaves_every_other_in_or_out_of_the_test_part(folder: Path) -> None:
    pattern = r"[a-z]+\d+(?=-)"
    before = {e.file: e.split for e in load_dataset(str(folder), group_by=pattern).manifest}
    for seed, name in enumerate(ADDED):
        added = noise(folder / name, 10_000 + seed)
        after = {e.file: e.split for e in load_dataset(str(folder), group_by=pattern).manifest}
        added.unlink()
        assert {file: after[file] for file in before} == before


def test_a_group_stays_in_its_split_whatever_picture_is_added_to_it() -> None:
    digests, groups = [f"{n:02x}" for n in range(100, 200)], [f"writer{n // 5}" for n in range(100)]
    before = set_aside_by_content(find_units(digests, groups), [0] * 100, 0.2, "test 0")
    for n in range(20):
        units = find_units([*digests, "00"], [*groups, f"writer{n}"])
        assert set_aside_by_content(units, [0] * 101, 0.2, "test 0")[:100] == before


def test_about_a_fifth_is_tested_on_and_a_tenth_validated_on_in_each_class(folder: Path) -> None:
    data = load_dataset(str(folder))
    assert all(8 <= count <= 32 for count in data.test.labels.bincount().tolist())
    train, validation = hold_out(data)
    assert validation is not None
    assert all(1 <= count <= 20 for count in validation.labels.bincount().tolist())
    assert len(train.labels) + len(validation.labels) + len(data.test.labels) == 300


def test_other_seeds_set_others_aside(folder: Path) -> None:
    first, again, other = (parts(load_dataset(str(folder), split_seed=seed)) for seed in (0, 0, 1))
    assert first == again != other
    data = load_dataset(str(folder))
    assert parts(data, seed=0) != parts(data, seed=1)


def test_exact_duplicates_fall_on_the_same_side(folder: Path) -> None:
    copies = {}
    for original in sorted(folder.glob("*/*-0.png")):
        copy = original.with_name(f"z copy of {original.name}")
        copy.write_bytes(original.read_bytes())
        copies[copy] = original
    try:
        split = parts(load_dataset(str(folder)))
        names = [(f"{c.parent.name}/{c.name}", f"{o.parent.name}/{o.name}") for c, o in copies.items()]
        assert len(names) == 60
        assert all(split[copy] == split[original] for copy, original in names)
        assert {split[copy] for copy, _ in names} == {"train", "validation", "test"}
    finally:
        for copy in copies:
            copy.unlink()


def test_groups_are_never_divided_and_can_be_held_out_by_name(folder: Path) -> None:
    data = load_dataset(str(folder), group_by=r"([a-z]+\d+)-")
    split = parts(data)
    for group in {file.split("-")[0] for file in split}:
        assert len({part for file, part in split.items() if file.startswith(f"{group}-")}) == 1
    train, validation = hold_out(data, "groups", count=20)
    assert validation is not None
    assert len(validation.labels) % 5 == 0 < len(train.labels)


units = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), min_size=1, max_size=120)


@given(units, st.floats(0, 1), st.integers(0, 5))
def test_units_stay_whole_and_each_class_keeps_one(
    pictures: list[tuple[int, int]], share: float, seed: int
) -> None:
    names = [f"{label} {unit}" for unit, label in pictures]
    labels = [label for _, label in pictures]
    away = set_aside_by_content(names, labels, share, f"test {seed}")
    sides = {name: {a for n, a in zip(names, away, strict=True) if n == name} for name in set(names)}
    assert all(len(side) == 1 for side in sides.values())
    for label in set(labels):
        there = {name for name, of in zip(names, labels, strict=True) if of == label}
        on_sides = [sides[name] for name in there]
        assert {False} in on_sides
        assert ({True} in on_sides) == (len(there) > 1)


def test_groups_that_share_a_picture_are_one_unit() -> None:
    units = find_units(["x", "y", "y", "z", "w", "w"], ["a", "a", "b", "c", "", ""])
    assert units[0] == units[1] == units[2]
    assert len({units[0], units[3], units[4]}) == 3
    assert units[4] == units[5]


def test_a_class_in_one_group_cannot_be_tested(folder: Path) -> None:
    with pytest.raises(CapsNetError, match="only one picture, or one group of them, of class 'ant'"):
        load_dataset(str(folder), group_by="ant|bee|cat")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("ant", "finds nothing in the name 'bee/bee0-0.png'"), ("(", "is not a regular expression")],
)
def test_a_pattern_that_does_not_fit_is_named(folder: Path, pattern: str, message: str) -> None:
    with pytest.raises(CapsNetError, match=message):
        load_dataset(str(folder), group_by=pattern)
