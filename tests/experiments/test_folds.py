"""The sum of a trial over its folds, from run folders that `capsnet train` made."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from capsnet.cli import main

SCRIPT = Path(__file__).parents[2] / "experiments" / "folds.py"
SHORT = ["--epochs", "2", "--limit", "60", "--no-test", "--no-reconstruction", "--model", "cnn_small"]


def sums(*paths):
    done = subprocess.run(
        [sys.executable, SCRIPT, *map(str, paths)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[1:], done.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two folds of two, on MNIST; the digits' writers are whole in each."""
    place = tmp_path_factory.mktemp("folds")
    for part in (1, 2):
        words = ["--hold-out", "writers", "--fold", f"{part}/2", "--threads", "1"]
        main(["train", "mnist", *SHORT, *words, "--out", str(place / f"fold{part}")])
    return [place / "fold1", place / "fold2"]


def test_a_trial_is_the_mean_loss_and_all_errors_of_its_folds(runs):
    results = [json.loads((run / "result.json").read_text()) for run in runs]
    assert sum(result["validation_images"] for result in results) == 60_000
    assert [result["config"]["fold"] for result in results] == ["1/2", "2/2"]
    assert {result["config"]["hold_out"] for result in results} == {"writers"}
    lines, _ = sums(*runs)
    loss, errors, images = lines[0].split()[:3]
    last = [result["curve"][-1] for result in results]
    assert float(loss) == pytest.approx(sum(row["validation_loss"] for row in last) / 2, abs=1e-6)
    rates = [row["validation_error_percent"] / 100 for row in last]
    assert int(errors) == round(sum(r * x["validation_images"] for r, x in zip(rates, results, strict=True)))
    assert int(images) == 60_000


def test_kept_results_count_as_run_folders_do(runs, tmp_path):
    kept = [Path(shutil.copy(run / "result.json", tmp_path / f"{run.name}.json")) for run in runs]
    assert sums(*kept)[0][0].split()[:3] == sums(*runs)[0][0].split()[:3]


def test_a_missing_fold_is_told(runs):
    lines, problems = sums(runs[1])
    assert lines == []
    assert "needs each of 1/2, 2/2 once; it has 2/2" in problems
