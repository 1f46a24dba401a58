"""Which files a path stands for: parts, tables, groups, and a sentence for whatever is wrong with them."""

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from capsnet.data import load_dataset
from capsnet.data.hold_out import hold_out
from capsnet.data.listing import list_path
from capsnet.errors import CapsNetError

COLOURS = {"ant": 40, "bee": 120, "wasp": 200}


def paint(path: Path, level: int, n: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((24, 24), level, dtype=np.uint8)
    pixels[0, :3] = (n % 250, n // 250, len(path.parts[-3]))
    Image.fromarray(pixels).save(path)


def fill(place: Path, count: int = 4) -> Path:
    for label, level in COLOURS.items():
        for n in range(count):
            paint(place / label / f"{n}.png", level, n)
    return place


@pytest.mark.parametrize("validation", ["val", "valid", "validation", "Val"])
def test_a_part_to_validate_on_is_used_for_that(tmp_path: Path, validation: str) -> None:
    for name, count in (("train", 8), (validation, 2), ("test", 3)):
        fill(tmp_path / name, count)
    data = load_dataset(str(tmp_path))
    train, held_out = hold_out(data)
    assert held_out is not None
    assert [len(split.labels) for split in (train, held_out, data.test)] == [24, 6, 9]
    _, fewer = hold_out(data, count=0)
    assert fewer is None
    _, drawn = hold_out(data, fold="1/2")
    assert drawn is not None
    assert len(drawn.labels) == 12
    assert [entry.split for entry in data.manifest] == ["train"] * 24 + ["validation"] * 6 + ["test"] * 9


def test_train_and_val_without_test_set_test_pictures_aside_from_train(tmp_path: Path) -> None:
    fill(tmp_path / "train", 20)
    fill(tmp_path / "val", 3)
    data = load_dataset(str(tmp_path))
    assert data.validation is not None
    assert len(data.validation.labels) == 9
    assert 3 <= len(data.test.labels) < 30
    assert {e.file.split("/")[0] for e in data.manifest if e.split == "test"} == {"train"}


def test_train_alone_and_a_class_called_train(tmp_path: Path) -> None:
    fill(tmp_path / "a" / "train", 10)
    assert load_dataset(str(tmp_path / "a")).class_names == tuple(COLOURS)
    fill(tmp_path / "b", 10)
    for n in range(10):
        paint(tmp_path / "b" / "train" / f"{n}.png", 99, n)
    assert load_dataset(str(tmp_path / "b")).class_names == ("ant", "bee", "train", "wasp")


def write_table(place: Path, separator: str = ",") -> Path:
    fill(place / "pictures", 10)
    rows = [["picture", "Class", "split", "object"]]
    for label in COLOURS:
        for n in range(10):
            split = "test" if n > 7 else "valid" if n == 7 else "train"
            rows.append([f"pictures/{label}/{n}.png", label, split, f"{label} {n // 2}"])
    path = place / ("labels.tsv" if separator == "\t" else "labels.csv")
    path.write_text("\n".join(separator.join(row) for row in rows), encoding="utf-8-sig")
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_gives_files_labels_splits_and_groups(tmp_path: Path, separator: str) -> None:
    path = write_table(tmp_path, separator)
    data = load_dataset(str(path), group_by="object")
    assert data.class_names == tuple(COLOURS)
    assert data.validation is not None
    assert [len(s.labels) for s in (data.train, data.validation, data.test)] == [21, 3, 6]
    assert len(data.groups["groups"].unique()) == 12
    for label, level in enumerate(COLOURS.values()):
        assert int(data.train.images[data.train.labels == label][0, 0, 12, 12]) == level


def test_a_table_without_splits_sets_whole_groups_aside(tmp_path: Path) -> None:
    path = write_table(tmp_path)
    text = path.read_text("utf-8").replace(",test,", ",,").replace(",valid,", ",,").replace(",train,", ",,")
    path.write_text(text.replace("object", "group"), "utf-8")
    data = load_dataset(str(path))
    for group in {entry.group for entry in data.manifest}:
        assert len({entry.split for entry in data.manifest if entry.group == group}) == 1
    assert {entry.split for entry in data.manifest} == {"train", "test"}


def edit(line: int, old: str, new: str) -> Callable[[Path], None]:
    def change(table: Path) -> None:
        lines = table.read_text("utf-8").split("\n")
        assert old in lines[line]
        lines[line] = lines[line].replace(old, new)
        table.write_text("\n".join(lines), "utf-8")

    return change


def append(row: str) -> Callable[[Path], None]:
    return lambda table: table.write_text(table.read_text("utf-8") + "\n" + row, "utf-8")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (edit(3, ",ant,", ",,"), "Line 4 of .* has no label: add it"),
        (edit(3, "pictures/ant/2.png", ""), "Line 4 of .* has no file"),
        (edit(3, "train", "trian"), "Line 4 of .* has the split 'trian', which is none of train, val"),
        (edit(3, "train", ""), "gives no split for pictures/ant/2.png, though for others"),
        (
            append("pictures/ant/0.png,bee,train,x"),
            "Lines 2 and 32 of .* list the same file, pictures/ant/0.png, with",
        ),
        (append("pictures/ant/0.png,ant"), "Line 32 of .* has 2 cells, but there are 4 columns"),
        (append("other.png,yellow,test,x"), "has the class 'yellow' only outside the training pictures"),
        (edit(0, "Class", "kind"), "has no column for the label: name one of its columns label or class"),
        (lambda table: table.write_text("file,label\n"), "has no rows"),
        (lambda table: table.write_bytes(b"file,label\n\xff\xfe,\xff\n"), "is not a table in UTF-8"),
        (lambda table: table.unlink(), "cannot be read: No such file"),
    ],
)
def test_a_table_with_a_fault_says_where_and_what_to_do(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    table = write_table(tmp_path)
    damage(table)
    with pytest.raises(CapsNetError, match=message):
        load_dataset(str(table))


def test_the_same_line_twice_is_taken_once_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = write_table(tmp_path)
    append("pictures/ant/0.png,ant,train,ant 0")(table)
    with caplog.at_level(logging.WARNING, "capsnet.data"):
        assert len(load_dataset(str(table)).train.labels) == 21
    assert "list the same file, pictures/ant/0.png; it is taken once" in caplog.text


def test_a_file_that_a_table_names_but_is_not_there_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = write_table(tmp_path)
    (tmp_path / "pictures" / "ant" / "3.png").unlink()
    with caplog.at_level(logging.WARNING, "capsnet.data"):
        data = load_dataset(str(table))
    assert len(data.train.labels) == 20
    assert "There is no file" in caplog.text


def test_everything_wrong_is_listed_at_once(tmp_path: Path) -> None:
    fill(tmp_path / "train")
    fill(tmp_path / "test")
    (tmp_path / "train" / "zebra").mkdir()
    (tmp_path / "test" / "yellow").mkdir()
    listing = list_path(tmp_path)
    assert len(listing.problems) == 2
    with pytest.raises(CapsNetError, match=r"zebra is empty.*capsnet data check .* tells of 1 more"):
        load_dataset(str(tmp_path))


def test_what_is_passed_over_is_noted(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "ant" / "photo.HEIC").write_bytes(b"x")
    (tmp_path / "beside.png").write_bytes(b"x")
    notes = " ".join(list_path(tmp_path).notes)
    assert "1 files ending in '.heic'" in notes
    assert "Convert them to JPEG or PNG" in notes
    assert "has 1 pictures outside its class folders" in notes


def test_two_names_for_one_part_and_a_table_in_place_of_folders(tmp_path: Path) -> None:
    for name in ("train", "val", "valid"):
        fill(tmp_path / name)
    with pytest.raises(CapsNetError, match="has both val/ and valid/"):
        load_dataset(str(tmp_path))
    write_table(tmp_path / "flat")
    with pytest.raises(CapsNetError, match=r"it has 1.*name that file: .*labels\.csv"):
        load_dataset(str(tmp_path / "flat"))


def test_thousands_of_tiny_files_are_read_with_word_of_how_far(tmp_path: Path) -> None:
    from capsnet.data.reading import reporting

    content = {}
    for label in COLOURS:
        paint(tmp_path / label / "0.png", COLOURS[label])
        content[label] = (tmp_path / label / "0.png").read_bytes()
        for n in range(1, 700):
            (tmp_path / label / f"{n}.png").write_bytes(content[label] + n.to_bytes(2))
    seen: list[tuple[str, int, int]] = []
    with reporting(lambda *words: seen.append(words)):
        data = load_dataset(str(tmp_path))
    assert len(data.train.labels) + len(data.test.labels) == 2100
    assert seen[0] == ("looking at pictures", 1, 2100)
    assert seen[-1] == ("reading pictures", 2100, 2100)
