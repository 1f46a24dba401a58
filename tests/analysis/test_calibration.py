import pytest
import torch

import capsnet
from capsnet.analysis.calibration import confidence, fit_temperature, held_out, reliability
from capsnet.analysis.subject import Subject
from capsnet.config import Config
from capsnet.data import load_dataset
from capsnet.train.finish import make_card
from capsnet.train.prepare import prepare_splits
from capsnet.train.recipes import get_recipe


@pytest.fixture(scope="module")
def calibrated():
    """Scores that are right as often as they say."""
    generator = torch.Generator().manual_seed(0)
    p = 0.5 + 0.5 * torch.rand(40_000, generator=generator)
    scores = torch.stack([p, 1 - p], dim=1)
    return scores, torch.rand(40_000, generator=generator) < p


@pytest.mark.parametrize("exclusive", [True, False])
def test_calibrated_scores_need_no_temperature(calibrated, exclusive):
    scores, right = calibrated
    assert fit_temperature(scores, right, exclusive=exclusive) == pytest.approx(1, abs=0.03)
    assert reliability(confidence(scores, exclusive=exclusive), right)[1] < 1


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_temperature_is_found_again(calibrated, exclusive):
    scores, right = calibrated
    odds = torch.logit(scores[:, 0]) * 2
    sharp = torch.stack([odds.sigmoid(), (-odds).sigmoid()], dim=1)
    found = fit_temperature(sharp, right, exclusive=exclusive)
    assert found == pytest.approx(2, abs=0.06)
    before = reliability(confidence(sharp, exclusive=exclusive), right)[1]
    assert reliability(confidence(sharp, found, exclusive=exclusive), right)[1] < before / 4


def test_bins_hold_every_image_once(calibrated):
    scores, right = calibrated
    rows, _ = reliability(confidence(scores, exclusive=False), right)
    assert sum(row["images"] for row in rows) == len(right)
    assert all(row["low"] <= row["confidence"] <= row["high"] + 1e-9 for row in rows)


def test_scores_of_zero_and_one_stay_finite():
    scores = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert confidence(scores, 0.05, exclusive=False).isfinite().all()


@pytest.mark.parametrize(
    "split", [{"hold_out": "writers", "limit": 900}, {"fold": "2/5"}, {"validation": 70}]
)
def test_the_temperature_is_fitted_on_the_images_that_training_held_out(split, tmp_path):
    dataset = load_dataset("mnist")
    config = Config("mnist", "cnn_small", get_recipe("quick", "mnist", "cnn_small"), seed=3, **split)
    model = capsnet.create_model("cnn_small")
    capsnet.save(model, tmp_path, card=make_card(dataset, config, 1, {}))
    used, told = held_out(Subject(capsnet.open_weights(tmp_path)))
    _, expected = prepare_splits(config, dataset)
    assert torch.equal(used.images, expected.images)
    assert (
        told
        == f"the {len(used.labels)} training images that {'fold 2/5' if 'fold' in split else 'seed 3'} holds out"
    )
