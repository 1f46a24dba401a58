"""The comparison on ETH-80: the same for every system, and chosen on validation alone."""

import importlib.util
import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from capsnet import create_model
from capsnet.cli.options import parse_pairs

SCRIPT = Path(__file__).parents[2] / "experiments" / "viewpoints.py"


@pytest.fixture(scope="module")
def viewpoints():
    spec = importlib.util.spec_from_file_location("viewpoints", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_list(tmp_path, *words):
    out = tmp_path / "list.json"
    words = ["list", "--out", str(out), "--results", str(tmp_path / "results"), *words]
    subprocess.run([sys.executable, SCRIPT, *words], check=True, capture_output=True)
    return json.loads(out.read_text())


def keep_choices(tmp_path, entries, errors):
    """Results of the trainings that choose: a validation error and loss for each learning rate."""
    folder = tmp_path / "results" / "viewpoints_rates"
    folder.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        words = entry["train"].split()
        rate = float(words[words.index("--learning-rate") + 1])
        error, loss = errors[rate]
        result = {
            "config": {"recipe": {"learning_rate": rate}},
            "curve": [
                {"validation_error_percent": 0.0, "validation_loss": 0.0},
                {"validation_error_percent": error, "validation_loss": loss},
            ],
        }
        (folder / f"{entry['name']}-s{entry['seeds'][0]}.json").write_text(json.dumps(result))


@pytest.mark.parametrize("part", ["systems", "ablations"])
def test_every_system_gets_the_same_trials(tmp_path, viewpoints, part):
    entries = write_list(tmp_path, "--part", part, "--replicates", "2")
    assert len({entry["name"] for entry in entries}) == len(entries)
    trials = Counter()
    for entry in entries:
        words = entry["train"].split()
        options = dict(itertools.pairwise(words))
        trials[options["--model"], tuple(words[words.index("--model-options") :])] += 1
        assert words[:5] == ["eth80", "--recipe", "budget", "--images", "40000"]
        assert options["--fold"] == f"{entry['seeds'][0] + 1}/5"
        assert options["--hold-out"] == "objects"
        assert "--no-test" in words
    assert len(trials) == 2 * len(viewpoints.PARTS[part])
    assert set(trials.values()) == {2 * 2 * 3}, "replicates, protocols, learning rates"


def test_the_rate_with_the_lowest_error_on_held_out_objects_is_tested(tmp_path):
    choosing = write_list(tmp_path, "--replicates", "1")
    keep_choices(tmp_path, choosing[:-1], {0.0005: (5.0, 0.2), 0.0015: (5.0, 0.1), 0.005: (6.0, 0.0)})
    testing = [entry for entry in write_list(tmp_path, "--replicates", "1") if entry["group"] == "viewpoints"]
    assert len(testing) == len(choosing) // 3 - 1, "the last system's choice is not finished"
    for entry in testing:
        words = entry["train"].split()
        options = dict(itertools.pairwise(words))
        assert options["--learning-rate"] == "0.0015"
        assert options["--validation"] == "0"
        assert not {"--no-test", "--fold"} & set(words)


def test_every_system_can_be_made(viewpoints):
    for model, options in (*viewpoints.SYSTEMS.values(), *viewpoints.ABLATIONS.values()):
        for decoder in ("decoder=dense", "decoder=false"):
            made = create_model(model, (3, 48, 48), 8, **parse_pairs([*options.split(), decoder], "-"))
            assert (made.decoder is None) == (decoder == "decoder=false")


def result(options, seed, test, decoder=False):
    return {
        "model": "cnn_small",
        "seed": seed,
        "config": {
            "dataset_options": options,
            "model_options": {"decoder": decoder},
            "recipe": {"learning_rate": 0.0015},
        },
        "train_error_percent": 0.5,
        "test_error_percent": test,
        "encoder_parameters": 1234,
    }


def test_a_row_sums_up_the_replicates_of_a_system(viewpoints):
    results = [result({"objects": "new", "draw": seed}, seed, 10.0 * (seed + 1)) for seed in (0, 1)]
    results.append(result({"objects": "new", "draw": 0}, 0, 90.0, decoder="dense"))
    results.append(result({"objects": "same", "views": "azimuth"}, 0, 50.0))
    _, _, *rows = viewpoints.make_table(results)
    assert rows == [
        "| azimuth | `cnn_small` | none | 1,234 | 0.0015 x 1 | 0.5 % | 50.0 % | 1 |",
        "| objects | `cnn_small` | all | 1,234 | 0.0015 x 1 | 0.5 % | 90.0 % | 1 |",
        "| objects | `cnn_small` | none | 1,234 | 0.0015 x 2 | 0.5 % | 15.0 % (10.0 to 20.0) | 2 |",
    ]


def test_protocols_are_told_apart_by_their_options(viewpoints):
    for name, words in viewpoints.PROTOCOLS.items():
        options = dict(word.split("=") for word in words.format(draw=3).split())
        assert viewpoints.protocol_of(options) == name
