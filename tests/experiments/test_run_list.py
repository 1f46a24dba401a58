"""The list runner: what a line of a list stands for, and what waits for what."""

import importlib.util
import json
from pathlib import Path

import pytest

from capsnet.cli.options import parse_pairs
from capsnet.config import Recipe
from capsnet.models.efficient_capsnet import CHANNELS
from capsnet.train.settings import OF_RECIPE

FOLDER = Path(__file__).parents[2] / "experiments"
LISTS = [path for path in FOLDER.glob("*.json") if isinstance(json.loads(path.read_text()), list)]


@pytest.fixture(scope="module")
def run_list():
    spec = importlib.util.spec_from_file_location("run_list", FOLDER / "run_list.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_line_is_a_run_for_each_seed_and_fold(run_list, tmp_path):
    lines = [
        {"group": "a", "name": "plain", "train": "mnist --epochs 2", "seeds": [0, 1]},
        {"group": "f", "name": "wide", "train": "mnist", "folds": 2},
        {"group": "t", "name": "both", "mix": "{runs}/f/wide-fold{fold}-s0 {runs}/a/plain-s0", "folds": 2},
        {"group": "f", "name": "taught", "train": "mnist --teacher {runs}/t/both-fold{fold}-s0", "folds": 2},
    ]
    path = tmp_path / "list.json"
    path.write_text(json.dumps(lines))
    runs = tmp_path / "runs"
    entries = run_list.read_entries(path, runs)
    assert [entry.name for entry in entries[:4]] == ["plain-s0", "plain-s1", "wide-fold1-s0", "wide-fold2-s0"]
    assert entries[0].arguments == ["mnist", "--epochs", "2", "--seed", "0"]
    assert entries[3].arguments == ["mnist", "--hold-out", "writers", "--fold", "2/2", "--seed", "0"]
    assert entries[5].arguments == [f"{runs}/f/wide-fold2-s0", f"{runs}/a/plain-s0"]
    # What needs another run waits for it; what is finished is not run again.
    assert run_list.next_entry(path, runs, entries[:4]) is None
    for entry in entries[:3]:
        entry.folder(runs).mkdir(parents=True)
        (entry.folder(runs) / "result.json").write_text("{}")
    assert run_list.next_entry(path, runs, []) == entries[3]
    assert run_list.next_entry(path, runs, [entries[3]]) == entries[4]
    entries[4].folder(runs).mkdir(parents=True)
    (entries[4].folder(runs) / "model.safetensors").touch()
    assert run_list.next_entry(path, runs, [entries[3]]) == entries[6]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_what_is_listed_can_be_trained(run_list, path, monkeypatch):
    """Every setting of a list exists, and what is waited for comes before it."""
    from capsnet.cli.training_options import TrainingOptions

    made = Path("runs-that-are-not-there")
    known = {f"--{name.replace('_', '-')}" for name in TrainingOptions.__dataclass_fields__} | {"--seed"}
    before = set()
    for entry in run_list.read_entries(path, made):
        named = {word for word in entry.arguments if word.startswith(f"{made}/")}
        assert named <= before, entry.name
        assert str(entry.folder(made)) not in before, f"{entry.name} is listed twice"
        before.add(str(entry.folder(made)))
        words = entry.arguments
        assert {word for word in words if word.startswith("--")} <= known, entry.name
        if "--settings" in words:
            given = words[words.index("--settings") + 1 :]
            pairs = given[: next((n for n, word in enumerate(given) if word.startswith("--")), len(given))]
            settings = parse_pairs(pairs, "--settings")
            assert settings.keys() <= OF_RECIPE, entry.name
            Recipe("checked", **({"epochs": 1, "batch_size": 1, "learning_rate": 1.0} | settings))
    assert len(CHANNELS) == 4
