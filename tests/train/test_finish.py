import pytest
import torch

import capsnet
from capsnet.data.base import Split
from capsnet.errors import CapsNetError
from capsnet.evaluate.ensembles import open_members
from capsnet.evaluate.predictions import BEST_ON_TEST, read_predictions
from capsnet.train.finish import best_on_test, sample


def test_watching_the_test_set_records_it_and_chooses_nothing(tmp_path):
    common = {
        "model": "cnn_small",
        "model_options": {"decoder": False},
        "limit": 100,
        "epochs": 3,
        "validation": 0,
        "threads": 1,
        "progress": False,
    }
    watched = capsnet.train("sliced_mnist", out=tmp_path / "watched", watch_test=True, **common)
    plain = capsnet.train("sliced_mnist", out=tmp_path / "plain", **common)
    errors = [row["test_error_percent"] for row in watched.history]
    assert watched.result["test_error_percent"] == plain.result["test_error_percent"] == errors[-1]
    assert plain.result["best_on_test"] is None
    best = watched.result["best_on_test"]
    assert best == {"epoch": errors.index(min(errors)) + 1, "test_error_percent": min(errors)}
    assert read_predictions(tmp_path / "watched", BEST_ON_TEST).error_percent() == min(errors)
    chosen, as_it_is = (
        open_members([str(tmp_path / "watched")], best_on_test=flag)[0] for flag in (True, False)
    )
    assert (chosen.epoch, as_it_is.epoch) == (best["epoch"], None)
    assert chosen.predictions.error_percent() == min(errors)
    with pytest.raises(CapsNetError, match="--watch-test reads the test set"):
        capsnet.train("sliced_mnist", out=tmp_path / "no", watch_test=True, test=False, **common)


def test_of_equal_epochs_the_first_is_the_best_on_the_test_set():
    rows = [{"epoch": n, "test_error_percent": error} for n, error in enumerate((0.4, 0.3, 0.3), start=1)]
    assert best_on_test(rows) == {"epoch": 2, "test_error_percent": 0.3}
    assert best_on_test([{"epoch": 1}]) is None


def test_the_training_error_is_taken_from_all_of_the_split_by_chance():
    split = Split(torch.zeros(6000, 1, 1, 1, dtype=torch.uint8), torch.arange(6000))
    chosen = sample(split, 1000).labels
    assert len(set(chosen.tolist())) == 1000
    assert chosen.tolist() == sorted(chosen.tolist())
    assert torch.equal(chosen, sample(split, 1000).labels)
    # Neither stretches nor the odd or the even ones have more than chance gives them.
    assert all(60 < int(((chosen >= 500 * n) & (chosen < 500 * (n + 1))).sum()) < 110 for n in range(12))
    assert 440 < int((chosen % 2).sum()) < 560
    assert sample(split, 9999).labels.tolist() == list(range(6000))
