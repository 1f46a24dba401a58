"""The weights that are kept: complete cards, small files, and the test error that they state."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import capsnet
from capsnet.saving import BUNDLED, bundled_names

ROOT = Path(__file__).resolve().parent.parent
COMPARED = sorted(path.parent for path in (ROOT / "results" / "weights").glob("*/config.json"))
KEPT = [*(BUNDLED / name for name in bundled_names()), *COMPARED]


@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.name)
def test_the_card_says_where_the_weights_come_from(folder: Path) -> None:
    model = capsnet.load(folder)
    network, dataset = folder.name.split(".")
    # The weights capsnet_self_attention are a capsnet's, efficient_capsnet may be an efficient_capsnet_smallnorb's.
    name = model.architecture.name
    assert name.startswith(network) or network.startswith(name)
    assert model.card.provenance["dataset"] == dataset
    assert {"recipe", "seed", "epochs", "commit", "date", "machine"} <= set(model.card.provenance)
    assert "validation_error_percent" in model.card.score
    assert any(key.startswith("test_") for key in model.card.score)
    assert model.decoder is not None


@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.name)
def test_no_file_is_over_15_mb(folder: Path) -> None:
    assert max(file.stat().st_size for file in folder.iterdir()) <= 15e6


def test_the_wheel_carries_at_most_20_mb_of_weights() -> None:
    assert sum(file.stat().st_size for file in BUNDLED.rglob("*") if file.is_file()) <= 20e6


def cpu_seconds() -> float:
    """Of all child processes so far: other work on the machine does not change it, and wall time is less with two cores."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_evaluation_gives_the_recorded_error_in_under_30_seconds() -> None:
    began = cpu_seconds()
    command = [sys.executable, "-m", "capsnet", "eval", "efficient_capsnet.mnist", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = cpu_seconds() - began
    card = capsnet.load("efficient_capsnet.mnist").card
    name = f"efficient_capsnet-{card.provenance['recipe']}-s{card.provenance['seed']}.json"
    recorded = json.loads((ROOT / "results" / "mnist" / name).read_text())
    assert json.loads(done.stdout)["errors"] == recorded["test_errors"]
    assert card.score["test_error_percent"] == recorded["test_error_percent"]
    assert recorded["commit"] == card.provenance["commit"]
    assert seconds < 30
