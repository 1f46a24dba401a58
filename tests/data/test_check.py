"""`capsnet data check` finds what is wrong with one's own data, all of it, and says so with its exit code."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from capsnet.cli import main
from capsnet.data.check import check_data
from capsnet.data.duplicates import connected, near_duplicates


def photo(path: Path, seed: int, size: tuple[int, int] = (48, 48)) -> None:
    """Something smooth, as photographs are, and unlike any other seed's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rough = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    Image.fromarray(rough).resize(size, Image.Resampling.BICUBIC).save(path)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sound")
    seeds = itertools.count()
    for part, count in (("train", 14), ("test", 4)):
        for label in ("ant", "bee ☃"):
            for n in range(count):
                photo(place / part / label / f"{part[:2]}{n // 2}-{n}.png", next(seeds))
    return place


@pytest.fixture
def place(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "data")
    return tmp_path / "data"


def check(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict]:
    capfd.readouterr()
    code = 0
    try:
        main(["data", "check", *map(str, words), "--json"])
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capfd.readouterr()
    assert "Traceback" not in err
    return code, json.loads(out)


def test_sound_data_are_described_with_what_training_would_do(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, found = check(capfd, place, "--image-size", 32)
    assert (code, found["ok"], found["problems"]) == (0, True, [])
    assert found["splits"]["train"] + found["splits"]["validation"] == 28
    assert found["splits"]["test"] == 8
    assert [row["name"] for row in found["classes"]] == ["ant", "bee ☃"]
    assert found["channels"] == {"colour": 36}
    assert found["sizes"] == {"different": 1, "smallest": [48, 48], "largest": [48, 48]}
    assert found["image_shape"] == [3, 32, 32]
    assert "as 3x32x32" in found["plan"]
    main(["data", "check", str(place)])
    assert "Nothing is wrong." in capfd.readouterr().out


def duplicate(place: Path) -> None:
    shutil.copy(place / "train" / "ant" / "tr0-0.png", place / "test" / "ant" / "other name.png")


def recompress(place: Path) -> None:
    with Image.open(place / "train" / "ant" / "tr0-0.png") as picture:
        picture.resize((30, 30)).save(place / "test" / "ant" / "other.jpg", quality=80)


def mislabel(place: Path) -> None:
    shutil.copy(place / "train" / "ant" / "tr0-0.png", place / "train" / "bee ☃" / "x.png")


def empty_class(place: Path) -> None:
    (place / "train" / "wasp").mkdir()


def only_in_test(place: Path) -> None:
    photo(place / "test" / "wasp" / "x.png", 500)


def one_class(place: Path) -> None:
    for part in ("train", "test"):
        shutil.rmtree(place / part / "bee ☃")


def unreadable(place: Path) -> None:
    (place / "train" / "ant" / "text.jpg").write_text("not a picture")
    (place / "test" / "ant" / "zero.png").write_bytes(b"")
    half = (place / "train" / "ant" / "tr0-0.png").read_bytes()
    (place / "train" / "ant" / "half.png").write_bytes(half[: len(half) // 2])


def all_of_a_class_unreadable(place: Path) -> None:
    for file in (place / "train" / "ant").iterdir():
        file.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "sentences"),
    [
        (
            duplicate,
            ["Pictures in more than one split: 1,", "tr0-0.png (", " = test/ant/other name.png (test)"],
        ),
        (recompress, ["Pictures in more than one split, nearly the same: 1", "test/ant/other.jpg (test)"]),
        (mislabel, ["Pictures in more than one class: 1; keep the right one"]),
        (empty_class, ["wasp is empty: it has no pictures; put some there, or take it away."]),
        (
            only_in_test,
            ["wasp is a class that the training pictures don't have: add some there, or take it away."],
        ),
        (one_class, ["needs a sub-folder of pictures for each class, at least two; it has 1."]),
        (
            unreadable,
            [
                "3 files cannot be read; replace or delete them",
                "text.jpg is not a picture",
                "the file is empty",
            ],
        ),
        (
            all_of_a_class_unreadable,
            ["is empty: none of its 14 pictures can be read; add some, or take the class away"],
        ),
    ],
)
def test_what_is_wrong_is_said_and_the_exit_code_is_1(
    place: Path, damage: Callable[[Path], None], sentences: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    damage(place)
    before = sorted(place.rglob("*"))
    code, found = check(capfd, place)
    assert (code, found["ok"]) == (1, False)
    problems = " ".join(found["problems"])
    assert all(sentence in problems for sentence in sentences), problems
    assert sorted(place.rglob("*")) == before, "nothing is lost"


def test_several_faults_are_told_at_once(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for damage in (unreadable, empty_class, only_in_test, duplicate):
        damage(place)
    code, found = check(capfd, place)
    assert code == 1
    assert len(found["problems"]) == 3
    assert len(found["unreadable"]) == 3
    assert found["plan"] == "Training would refuse these data."


def test_groups_on_both_sides_are_named(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, found = check(capfd, place, "--group-by", r"(tr\d+|te\d+)-")
    assert (code, found["groups"]) == (0, 9)
    code, found = check(capfd, place, "--group-by", r"\w\w(\d+)-")
    assert code == 1
    assert "2 groups are in more than one split: 0 (test, " in found["problems"][0]


def test_tables_and_arrays_and_named_sets_are_checked(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = sorted(file.relative_to(place) for file in place.rglob("*.png"))
    rows = [
        "file,label",
        *(f"{file},{file.parts[1]}" for file in files),
        "missing.png,ant",
        f"{files[0]},bee ☃",
    ]
    (place / "labels.csv").write_text("\n".join([*rows, f"{files[1]},"]), "utf-8")
    code, found = check(capfd, place / "labels.csv")
    problems = " ".join(found["problems"])
    assert code == 1
    assert "has no label: add it" in problems
    assert "list the same file" in problems
    assert "There is no file" in problems
    x = np.random.default_rng(0).integers(0, 256, (40, 24, 24), dtype=np.uint8)
    np.savez(
        place / "arrays.npz", x_train=x, y_train=np.arange(40) % 2, x_test=x[:3], y_test=np.arange(3) % 2
    )
    code, found = check(capfd, place / "arrays.npz")
    assert code == 1
    assert "Pictures in more than one split: 3" in found["problems"][0]
    np.savez(place / "bad.npz", x_train=x, y_train=np.zeros((40, 0)))
    assert check(capfd, place / "bad.npz")[1]["problems"] == [
        f"{place / 'bad.npz'}: y_train has no labels: whole numbers or names, one for each picture."
    ]


def test_what_is_not_there_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in (str(tmp_path / "nothing"), str(tmp_path / "nothing.npz"), "mnits"):
        with pytest.raises(SystemExit) as stop:
            main(["data", "check", name])
        assert stop.value.code == 2
        assert "There is no" in capfd.readouterr().err


def test_registered_sets_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from capsnet.data import load_dataset
    from capsnet.data.splits import limit

    data = load_dataset("mnist")
    object.__setattr__(data, "train", limit(data.train, 600, 0))
    object.__setattr__(data, "test", limit(data.test, 200, 0))
    monkeypatch.setattr("capsnet.data.check.load_dataset", lambda *_, **__: data)
    found = check_data("mnist").to_dict()
    assert found["ok"]
    assert found["splits"] == {"train": 540, "validation": 60, "test": 200}


def test_near_duplicates_are_found_among_unlike_ones_and_flat_ones_are_not(place: Path) -> None:
    import torch

    files = sorted(place.rglob("*.png"))
    large = [Image.open(file).convert("RGB") for file in files]
    shown = [*large, *(p.resize((32, 32)).resize((48, 48)) for p in large[:5])]
    images = torch.stack([torch.from_numpy(np.array(p)).permute(2, 0, 1) for p in shown])
    images = torch.cat([images, torch.full((4, 3, 48, 48), 7, dtype=torch.uint8)])
    n = len(large)
    found = near_duplicates(images, ["train"] * n + ["test"] * (len(images) - n))
    assert found == [[k, n + k] for k in range(5)]


def test_links_make_clusters() -> None:
    assert connected([(0, 1), (5, 6), (1, 2), (7, 6)]) == [[0, 1, 2], [5, 6, 7]]
