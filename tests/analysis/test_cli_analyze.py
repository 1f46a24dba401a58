"""`capsnet analyze` as a user calls it: figures in both formats, numbers beside them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import capsnet
from capsnet.analysis.reconstruct import match, overlay
from capsnet.analysis.routing import coupling_of
from capsnet.analysis.subject import Subject
from capsnet.card import Card
from capsnet.cli import main

WEIGHTS = "efficient_capsnet.mnist"
HELD_OUT = Path(__file__).parents[2] / "results" / "weights" / "base_capsnet.mnist"


def analyse(capfd, out, command, *words, weights=WEIGHTS):
    main(["analyze", command, str(weights), *map(str, words), "--out", str(out), "--device", "cpu", "--json"])
    printed = json.loads(capfd.readouterr().out)
    assert printed == json.loads((out / f"{command}.json").read_text())
    for file in printed["files"]:
        if file.endswith(".png"):
            with Image.open(file) as picture:
                assert picture.width > 300
                assert np.asarray(picture.convert("L")).std() > 5, "an empty figure"
        elif file.endswith(".svg"):
            with open(file) as text:
                assert "<svg" in text.read()
    return printed


def test_reconstructions_are_near_their_images_and_the_same_bytes_each_time(capfd, tmp_path):
    for name in ("a", "b"):
        made = analyse(capfd, tmp_path / name, "reconstruct")
    assert len(made["images"]) == 10
    assert made["mean_squared_error"][WEIGHTS] < 0.08
    for file in ("reconstruct.png", "reconstruct.svg"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_perturbations_leave_the_middle_as_it_is(capfd, tmp_path):
    made = analyse(capfd, tmp_path, "perturb", "--image", "3")
    assert made["dimensions"] == list(range(16))
    assert len(made["offsets"]) == 11
    assert made["offsets"][0] == -0.25
    assert all(row[5] == 0 and row[0] > 0 for row in made["mean_absolute_change"])
    with Image.open(tmp_path / "perturb.gif") as animation:
        assert animation.n_frames == 20


def test_features_of_a_plain_network_can_be_perturbed_too(capfd, tmp_path):
    card = Card(tuple("0123456789"), {}, {"dataset": "mnist"}, {})
    capsnet.save(capsnet.create_model("cnn_small"), tmp_path / "w", card=card)
    made = analyse(capfd, tmp_path / "out", "perturb", weights=tmp_path / "w")
    assert len(made["dimensions"]) == 16


def test_mistakes_are_sorted_by_confidence(capfd, tmp_path):
    made = analyse(capfd, tmp_path, "errors", "--images", "1500", "--seed", "1", "--most", "4")
    scores = [entry["score"] for entry in made["mistakes"]]
    assert scores == sorted(scores, reverse=True)
    assert made["errors"] == len(scores) > 0
    assert all(entry["label"] != entry["found"] for entry in made["mistakes"])
    rows = list(csv.DictReader((tmp_path / "errors.csv").open()))
    assert len(rows) == made["errors"]


def test_mean_coupling_sums_to_one_over_class_capsules(capfd, tmp_path):
    made = analyse(
        capfd, tmp_path, "routing", "--images", "60", "--mean-images", "20", "--record", tmp_path / "results"
    )
    record = json.loads((tmp_path / "results" / "routing" / f"{WEIGHTS}.json").read_text())
    assert record["errors"] == made["errors"]
    assert {"machine", "threads", "date", "commit", "images", "weights"} <= set(record)
    mean = np.asarray(made["mean_coupling"])
    np.testing.assert_allclose(mean.sum(axis=1), 1, atol=1e-5)
    assert np.mean(made["mean_coupling_to_own_class"]) > made["uniform"]
    assert np.asarray(made["log_prior"]).shape == (10, 16)


def test_a_network_that_does_not_route_has_no_coupling(tmp_path):
    capsnet.save(capsnet.create_model("base_capsnet"), tmp_path / "w")
    subject = Subject(capsnet.open_weights(tmp_path / "w", "mnist"))
    with pytest.raises(capsnet.CapsNetError, match="does not route"):
        coupling_of(subject, subject.batch(torch.arange(2)).images)


def test_calibration_never_fits_on_the_test_set(capfd, tmp_path):
    # Weights that some training images were held out from; those in the package have seen all.
    made = analyse(capfd, tmp_path, "calibration", "--images", "300", weights=HELD_OUT)
    assert made["fitted_on"].endswith("training images that seed 0 holds out")
    assert made["after"]["accuracy"] == made["before"]["accuracy"]
    assert made["after"]["loss"] < made["before"]["loss"]


def test_equivariance_writes_its_table_and_three_figures(capfd, tmp_path):
    made = analyse(capfd, tmp_path, "equivariance", "--images", "4", "--linear-images", "120")
    assert made["all_test_images"] is False
    assert made["seed"] == 0
    assert {entry["samples"] for entry in made["table"].values()} == {11, 51}
    for entry in made["table"].values():
        assert entry["cumulative_percent"][0] == pytest.approx(entry["first_component_percent"])
        assert entry["cumulative_percent"][-1] == pytest.approx(100)
    assert len(made["files"]) == 6


def test_pairs_are_matched_by_class_and_drawn_in_two_colours():
    assert match(torch.tensor([[3, 5], [5, 3], [3, 9]]), torch.tensor([[3, 5], [3, 5], [5, 3]])).tolist() == [
        [0, 1],
        [1, 0],
        [1, 0],
    ]
    two = torch.zeros(2, 1, 1, 3)
    two[0, 0, 0, 0] = two[1, 0, 0, 1] = 1
    colours = overlay(two)
    assert colours.shape == (3, 1, 3)
    assert colours[:, 0, 2].tolist() == [1, 1, 1]
    assert not np.allclose(colours[:, 0, 0], colours[:, 0, 1])


@pytest.mark.parametrize(
    "words", [["perturb", "--steps", "4"], ["perturb", "--image", "99999"], ["errors", "--images", "0"]]
)
def test_bad_options_are_one_sentence(words, tmp_path, capfd):
    with pytest.raises(SystemExit) as stop:
        main(["analyze", words[0], WEIGHTS, "--out", str(tmp_path), *words[1:]])
    assert stop.value.code == 2
    assert "Traceback" not in capfd.readouterr().err
