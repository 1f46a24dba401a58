"""Which test images many networks miss: made-up predictions whose counts are known."""

import json

import pytest
import torch

import capsnet
from capsnet.analysis.missed import find_missed
from capsnet.cli import main
from capsnet.data.disputed import DISPUTED
from capsnet.errors import CapsNetError
from capsnet.evaluate.ensembles import Member
from capsnet.evaluate.predictions import Predictions, Recorder
from capsnet.files import write_json


@pytest.fixture(scope="module")
def digits():
    return capsnet.data.load_dataset("mnist")


def predictions(digits, answers):
    """All test images right but for the given answers."""
    labels = digits.test.labels.clone()
    for index, answer in answers.items():
        labels[index] = answer
    scores = torch.full((10_000, 10), 0.05).scatter_(1, labels[:, None], 0.9)
    return Predictions(scores, digits.test.labels[:, None])


@pytest.fixture(scope="module")
def three(digits):
    """Three networks: image 947 (an 8, disputed) is missed by all, 0 (a 7) by two, and 5 by one."""
    answers = [{947: 9, 0: 1}, {947: 9, 0: 2}, {947: 3, 5: 0}]
    return [Member(f"s{n}", n, "mnist", None, predictions(digits, a)) for n, a in enumerate(answers)]


def test_misses_are_counted_by_image_run_writer_and_dispute(digits, three):
    found = find_missed(three, digits)
    assert [(row["index"], row["missed_by"]) for row in found["missed"]] == [(947, 3), (0, 2), (5, 1)]
    assert found["missed"][0]["taken_for"] == {"9": 2, "3": 1}
    assert found["missed"][0]["votes"] == {
        "label": 8, "guess": 9, "for_label": 0, "for_guess": 5, "for_neither": 0,
    }  # fmt: skip
    assert found["errors"] == [2, 2, 2]
    assert (found["missed_by_any"], found["missed_by_half"], found["missed_by_all"]) == (3, 2, 1)
    assert found["missed"][1]["writer"] == 2578
    assert found["disputed"]["mean_errors_on_them"] == 1
    assert found["disputed"]["mean_errors_elsewhere"] == 1
    assert (found["disputed"]["missed_by_all"], found["disputed"]["never_missed"]) == (1, 14)
    shares = [series["error_percent"] * series["images"] / 100 for series in found["series"].values()]
    assert sum(shares) == pytest.approx(found["mean_errors"], abs=1e-3)
    assert found["writers"] == 297
    assert found["writers"] - found["writers_never_missed"] == len(found["worst_writers"])
    assert found["ensemble_errors"] == 2


def test_disputed_labels_are_those_of_the_test_set_and_have_no_majority(digits):
    assert len(DISPUTED["mnist"]) == 15
    for index, votes in DISPUTED["mnist"].items():
        assert int(digits.test.labels[index]) == votes.label
        assert votes.for_label < 3
        assert votes.for_label + votes.for_guess + votes.for_neither == 5


def test_pairs_are_refused(digits, three):
    pairs = Predictions(three[0].predictions.scores, three[0].predictions.classes.expand(-1, 2))
    with pytest.raises(CapsNetError, match="not on pairs"):
        find_missed([Member("s0", 0, "multimnist", None, pairs)], digits)


def test_the_command_draws_them_from_kept_predictions(three, tmp_path, capsys):
    for member in three:
        folder = tmp_path / "trials" / member.run
        recorder = Recorder()
        recorder(*member.predictions)
        recorder.write(folder)
        write_json(
            folder / "result.json",
            {"seed": member.seed, "dataset": "mnist", "validation_error_percent": None},
        )
    capsnet.save(capsnet.load("efficient_capsnet.mnist"), tmp_path / "trials" / "s0" / "last")
    main(["analyze", "missed", str(tmp_path / "trials"), "--out", str(tmp_path / "out"), "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["missed_by_any"] == 3
    assert [file.rpartition(".")[2] for file in printed["files"]] == ["png", "svg"]
    lines = (tmp_path / "out" / "missed.csv").read_text().splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("947,8,3,")
    assert "9 2x, 3 1x" in lines[1]
    assert lines[1].endswith("0,5,0")
