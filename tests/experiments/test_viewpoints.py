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


@pytest.mark.parametrize("part", ["systems", "ablations"])
def test_every_system_gets_the_same_trials(tmp_path, viewpoints, part):
    out = tmp_path / "list.json"
    words = ["list", "--out", str(out), "--part", part, "--replicates", "2"]
    subprocess.run([sys.executable, SCRIPT, *words], check=True, capture_output=True)
    entries = json.loads(out.read_text())
    assert len({entry["name"] for entry in entries}) == len(entries)
    trials = Counter()
    for entry in entries:
        words = entry["train"].split()
        options = dict(itertools.pairwise(words))
        model_options = words[words.index("--model-options") + 1 : words.index("--learning-rate")]
        shared = [
            w for w in words if w not in (options["--model"], *model_options, options["--learning-rate"])
        ]
        trials[options["--model"], tuple(model_options)] += 1
        assert shared[: shared.index("--fold") + 2] == [
            *("eth80", "--recipe", "budget", "--images", "60000"),
            *("--hold-out", "objects", "--fold", f"{entry['seeds'][0] + 1}/5"),
        ]
    assert len(trials) == 2 * len(viewpoints.PARTS[part])
    assert set(trials.values()) == {2 * 2 * 3}, "replicates, protocols, learning rates"


def test_every_system_can_be_made(viewpoints):
    for model, options in (*viewpoints.SYSTEMS.values(), *viewpoints.ABLATIONS.values()):
        for decoder in ("decoder=dense", "decoder=false"):
            made = create_model(model, (3, 48, 48), 8, **parse_pairs([*options.split(), decoder], "-"))
            assert (made.decoder is None) == (decoder == "decoder=false")


def result(protocol, rate, seed, validation, loss, test):
    draw = {"draw": seed} if "draw" in protocol else {}
    words = dict(word.split("=") for word in protocol.split() if "{" not in word)
    return {
        "model": "cnn_small",
        "seed": seed,
        "config": {
            "dataset_options": {**words, **draw},
            "model_options": {"decoder": False},
            "recipe": {"learning_rate": rate},
        },
        "selected": {"epoch": 2},
        "curve": [
            {"validation_error_percent": 99.0, "validation_loss": 9.0},
            {"validation_error_percent": validation, "validation_loss": loss},
        ],
        "validation_error_percent": validation,
        "test_error_percent": test,
        "encoder_parameters": 1234,
    }


def test_the_rate_is_chosen_by_validation_and_its_test_counts(viewpoints):
    results = []
    for seed, test in ((0, 10.0), (1, 20.0)):
        results += [
            result(viewpoints.PROTOCOLS["objects"], 0.0005, seed, 5.0, 0.2, 1.0),
            result(viewpoints.PROTOCOLS["objects"], 0.0015, seed, 5.0, 0.1, test),
            result(viewpoints.PROTOCOLS["objects"], 0.005, seed, 6.0, 0.1, 2.0),
        ]
    results.append(
        result(viewpoints.PROTOCOLS["objects"], 0.0015, 2, 1.0, 0.1, 90.0)
    )  # a replicate that is not whole
    results.append(result(viewpoints.PROTOCOLS["azimuth"], 0.0015, 0, 1.0, 0.1, 90.0))
    *_, row = lines = viewpoints.make_table(results)
    assert len(lines) == 3
    assert row.startswith(
        "| objects | `cnn_small` | none | 1,234 | 0.0015 x 2 | 5.0 % | 15.0 % (10.0 to 20.0) | 2 |"
    )


def test_protocols_are_told_apart_by_their_options(viewpoints):
    for name, words in viewpoints.PROTOCOLS.items():
        options = dict(word.split("=") for word in words.format(draw=3).split())
        assert viewpoints.protocol_of(options) == name
