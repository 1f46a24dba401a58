import pytest
import torch

import capsnet
from capsnet.analysis.attacks.checks import check, check_slope
from capsnet.analysis.attacks.corruptions import CORRUPTIONS, STRENGTHS
from capsnet.analysis.attacks.gradient import Attack, Bounds, DifferentiableRule, lead_of_wrong
from capsnet.detection.detector import fit_detector
from capsnet.evaluate.evidence import gather

BOUNDS = Bounds(torch.tensor(0.0).view(1, 1, 1), torch.tensor(255 / 256).view(1, 1, 1))
STRENGTH = 0.1


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return capsnet.create_model("base_capsnet", (1, 20, 20), 4).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def batch(model):
    images = torch.rand(12, 1, 20, 20, generator=torch.Generator().manual_seed(1)) * 255 / 256
    return images, model(images).scores.argmax(dim=1)


def every_attack(model, images, labels):
    attack, generator = Attack(model, BOUNDS, steps=6), torch.Generator().manual_seed(0)
    targets = (labels + 1) % 4
    rule = fit_detector(gather(model, [images], votes=True), "").rules[0]
    return {
        "fgsm": attack.fgsm(images, labels, STRENGTH),
        "pgd": attack.pgd(images, labels, STRENGTH, generator),
        "targeted": attack.targeted(images, targets, STRENGTH, generator),
        "aware": attack.aware(images, targets, STRENGTH, generator),
        "evasive": attack.evasive(images, targets, STRENGTH, generator, rule),
    }


def test_attacks_stay_within_their_strength_and_the_range_and_move_towards_errors(model, batch):
    images, labels = batch
    before = lead_of_wrong(model(images), labels).mean()
    for name, pictures in every_attack(model, images, labels).items():
        assert (pictures - images).abs().max() <= STRENGTH * 255 / 256 + 1e-6, name
        assert pictures.min() >= 0, name
        assert pictures.max() <= 255 / 256, name
        assert lead_of_wrong(model(pictures), labels).mean() > before, name


def test_the_rule_in_torch_is_the_detector_s(model, batch):
    images, _ = batch
    evidence = gather(model, [images], votes=True)
    rule = fit_detector(evidence, "").rules[0]
    assert list(rule.yardsticks) == ["votes", "reconstruction", "length"]
    got = DifferentiableRule(rule, model, images.device)(images, torch.from_numpy(evidence.classes))
    expected = torch.from_numpy(rule.strangeness(evidence)).float()
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)


def test_gradients_of_a_plain_network_are_trusted(model, batch):
    images, labels = batch
    found = check(model, images, labels, BOUNDS, STRENGTH, steps=5, others={})
    assert found["median_difference_percent"] < 0.1
    assert found["gradients_lost_percent"] == 0
    assert found["random_error_percent"] <= found["pgd_error_percent"]


def test_a_network_that_rounds_its_input_is_found_out(model, batch):
    images, labels = batch

    class Rounding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, images):
            return self.model((4 * images).round() / 4)

    found = check_slope(Rounding(), images, labels)
    assert found["gradients_lost_percent"] == 100


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruptions_keep_the_range_and_grow_with_their_strength(name):
    images = torch.zeros(6, 2, 28, 24)
    images[:, :, 6:20, 8:14] = 200 / 256
    change = []
    for strength in STRENGTHS:
        made = CORRUPTIONS[name](images, strength, BOUNDS, torch.Generator().manual_seed(3))
        assert made.shape == images.shape
        assert made.min() >= 0
        assert made.max() <= 255 / 256 + 1e-6
        change.append(float((made - images).abs().mean()))
    assert change == sorted(change)
    assert change[0] > 0
