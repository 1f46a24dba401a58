"""The pictures that `capsnet analyze unknown` shows to networks, and what it counts."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import capsnet
from capsnet.analysis.foreign import DRAWN, SPOILT, draw, spoil
from capsnet.analysis.unknown import auroc
from capsnet.cli import main
from capsnet.data import load_dataset
from capsnet.evaluate.evidence import look, weighted_agreement

BASE = Path(__file__).parents[2] / "results" / "weights" / "base_capsnet.mnist"


@pytest.fixture(scope="module")
def digits():
    return load_dataset("mnist")


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_pictures_are_those_of_the_seed(digits, name):
    pictures = draw(digits, name, 9, seed=3)
    assert pictures.shape == (9, 1, 28, 28)
    assert pictures.dtype == torch.uint8
    assert torch.equal(pictures, draw(digits, name, 9, seed=3))
    assert not torch.equal(pictures, draw(digits, name, 9, seed=4))
    assert pictures.flatten(1).float().std(dim=1).min() > 10


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_pictures_differ_from_every_test_image(digits, name):
    split = digits.test.select(torch.arange(40))
    pictures = spoil(split, name)
    assert pictures.shape[1:] == split.images.shape[1:]
    assert pictures.dtype == torch.uint8
    assert 0 < len(pictures) <= 40
    difference = (pictures[:, None].int() - split.images[None].int()).abs().flatten(2).sum(dim=2)
    assert (difference > 0).all()


def test_auroc_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(0)
    familiar, foreign = rng.integers(0, 5, 40), rng.integers(2, 8, 30)
    pairs = [(b > a) + (a == b) / 2 for a in familiar for b in foreign]
    assert auroc(familiar, foreign) == pytest.approx(np.mean(pairs))


def test_votes_that_point_one_way_agree():
    votes = torch.tensor([[[[1.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0]]]])
    weights = torch.ones(1, 2, 2)
    assert weighted_agreement(votes, weights, torch.tensor([0])) == pytest.approx(1)
    assert weighted_agreement(votes, weights, torch.tensor([1])) == pytest.approx(0)


def test_the_parts_are_the_primary_capsules_or_if_asked_for_the_poses():
    image = torch.rand(1, 1, 28, 28)
    for name, count in (("efficient_capsnet", 128), ("base_capsnet", 160), ("cnn_small", 192)):
        model = capsnet.create_model(name).eval()
        seen = look(model, image, features=True)
        assert seen.parts.shape == (1, count)
        assert seen.drawn.shape == image.shape
        assert (look(model, image).parts is None) == (name != "efficient_capsnet")


def test_the_command_measures_and_keeps_a_rule_on_the_card(tmp_path, capfd):
    weights = tmp_path / "weights"
    model = capsnet.load(BASE)
    capsnet.save(model, weights)
    words = ["--out", str(tmp_path / "out"), "--images", "30", "--threads", "1", "--json", "--keep"]
    main(["analyze", "unknown", str(weights), "--record", str(tmp_path / "record.json"), *words])
    told = json.loads(capfd.readouterr().out)
    measures = told["systems"]["base_capsnet"]["measures"]
    assert set(measures) == {"length", "reconstruction", "votes", "combined"}
    assert measures["combined"]["detected_percent"]["noise"] > 50  # 71.2 of 500 in docs/unknown.md
    assert set(told["images"]) == {"test images", *DRAWN, *SPOILT}
    assert json.loads((tmp_path / "record.json").read_text())["machine"]
    kept = capsnet.load(weights)
    assert kept.card.detection["images"] == 5000
    assert kept.card.detector(10).false_alarm == pytest.approx(0.05)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, kept.state_dict()[name])
