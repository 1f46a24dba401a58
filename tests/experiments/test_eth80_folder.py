"""ETH-80 as a folder of photographs: divided by object, and chosen before anything is tested."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "experiments" / "eth80_folder.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("eth80_folder", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def keep(results, script, group, name, error):
    """The results of all trainings of a candidate, in which one fold is better than the mean."""
    (results / group).mkdir(parents=True, exist_ok=True)
    for fold in range(1, script.FOLDS + 1):
        number = error - 2 if fold == 1 else error + 0.5
        result = {"curve": [{"validation_error_percent": 0.0}, {"validation_error_percent": number}]}
        (results / group / f"{name}-fold{fold}-s0.json").write_text(json.dumps(result))


def test_the_first_five_objects_of_a_category_train_and_the_others_test(script, tmp_path):
    source = tmp_path / "eth80"
    for category, numbers in {"car": [1, 2, 3, 5, 6, 7, 9, 11, 12, 14], "cow": range(1, 11)}.items():
        for number in numbers:
            folder = source / f"{category}{number}"
            (folder / "maps").mkdir(parents=True)
            for path in (folder, folder / "maps"):
                (path / f"{category}{number}-066-000.png").write_bytes(b"picture")
    assert script.make_folder(source, tmp_path / "photos") == 20
    found = {
        part: sorted(path.name.split("-")[0] for path in (tmp_path / "photos" / part).rglob("*.png"))
        for part in ("train", "test")
    }
    assert found["train"] == sorted(f"car{n}" for n in (1, 2, 3, 5, 6)) + [f"cow{n}" for n in range(1, 6)]
    assert len(found["test"]) == 10
    assert not set(found["train"]) & set(found["test"])


def test_no_test_is_listed_before_all_candidates_have_all_their_folds(script, tmp_path):
    *most, last = script.CANDIDATES
    for name in most:
        keep(tmp_path, script, script.CHOICE, name, 10)
    entries = script.list_runs("photos", tmp_path)
    assert len(entries) == script.FOLDS * len(script.CANDIDATES)
    assert all("--no-test" in entry["train"] and "--fold" in entry["train"] for entry in entries)
    keep(tmp_path, script, script.CHOICE, last, 10)
    assert any("--no-test" not in entry["train"] for entry in script.list_runs("photos", tmp_path))


def test_the_lowest_mean_over_folds_is_tested_with_the_baseline_on_all_seeds(script, tmp_path):
    for n, name in enumerate(script.CANDIDATES):
        keep(tmp_path, script, script.CHOICE, name, 10 if n == 2 else 11 + n)
    best = list(script.CANDIDATES)[2]
    tests = [entry for entry in script.list_runs("photos", tmp_path) if entry["group"] == script.TEST]
    assert {entry["name"] for entry in tests} == {best, *script.BASELINES}
    assert all(entry["seeds"] == [0, 1, 2, 3, 4] for entry in tests)
    assert all("--validation 0" in entry["train"] and "--no-test" not in entry["train"] for entry in tests)


def test_the_table_shows_every_fold_and_every_seed(script, tmp_path):
    name = next(iter(script.CANDIDATES))
    keep(tmp_path, script, script.CHOICE, name, 10)
    (tmp_path / script.TEST).mkdir()
    for seed, error in enumerate((12.0, 14.0)):
        path = tmp_path / script.TEST / f"{name}-s{seed}.json"
        path.write_text(json.dumps({"test_error_percent": error}))
    (row,) = [line for line in script.make_table(tmp_path) if f"`{name}`" in line]
    assert "8.0, 10.5, 10.5, 10.5, 10.5" in row
    assert "13.0 %" in row
    assert "12.0, 14.0" in row
