"""The comparison of routings: the same for every routing, chosen on validation alone, on commands that can be run."""

import importlib.util
import itertools
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from capsnet.functional.routing import ROUTINGS

FOLDER = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module")
def routings():
    sys.path.append(str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("routings_experiment", FOLDER / "routings.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(FOLDER))


def test_every_registered_routing_gets_the_same_trainings(tmp_path, routings):
    entries = routings.list_runs(1000, tmp_path)
    assert set(routings.ROUTINGS) == set(ROUTINGS)
    assert len({entry["name"] for entry in entries}) == len(entries)
    trials = Counter(entry["train"].split("routing=")[1].split()[0] for entry in entries)
    assert set(trials.values()) == {len(routings.DATA) * len(routings.RATES)}
    assert all("--no-test" in entry["train"] for entry in entries)


def test_the_rate_that_does_best_on_validation_images_is_tested_with_three_seeds(tmp_path, routings):
    folder = tmp_path / routings.CHOICE
    folder.mkdir()
    for rate, error in zip(routings.RATES, (3.0, 1.0, 2.0), strict=True):
        result = {
            "config": {"recipe": {"learning_rate": rate}},
            "curve": [{"validation_error_percent": error, "validation_loss": 0.0}],
        }
        (folder / f"eth80-uniform-{rate}-s0.json").write_text(json.dumps(result))
    tests = [entry for entry in routings.list_runs(1000, tmp_path) if entry["group"] == routings.TEST]
    assert [entry["seeds"] for entry in tests] == [[0], [1], [2]]
    for seed, entry in enumerate(tests):
        words = entry["train"].split()
        options = dict(itertools.pairwise(words))
        assert options["--learning-rate"] == str(routings.RATES[1])
        assert options["--validation"] == "0"
        assert f"draw={seed}" in words
        assert "--no-test" not in words


def test_the_table_has_a_row_for_each_routing_and_every_seed(routings):
    results = [
        {
            "seed": seed,
            "dataset": "mnist",
            "test_error_percent": 1.0 + seed,
            "encoder_parameters": 161_824,
            "config": {"model_options": {"routing": "uniform"}},
        }
        for seed in (2, 0, 1)
    ]
    assert routings.make_table(results)[2:] == ["| uniform | 161,824 | 2.00 % (1.00, 2.00, 3.00) | - | - |"]
