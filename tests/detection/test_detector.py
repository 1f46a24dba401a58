import json
import math

import numpy as np
import pytest

from capsnet.detection.detector import RULES, Detector, fit_detector, fit_rule
from capsnet.detection.measures import MEASURES, Evidence
from capsnet.detection.parts import MOST, fit_parts
from capsnet.errors import CapsNetError

CLASSES, WIDTH = 3, 6


def evidence(count=3000, *, shift=0.0, seed=0, **changes):
    """Scores, parts and pictures that are usual of three classes, or `shift` deviations from that."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    scores = np.full((count, CLASSES), 0.05)
    scores[np.arange(count), labels] = 1 - np.clip(rng.exponential(0.03 * (1 + shift), count), 0, 0.9)
    mixing = np.random.default_rng(7).normal(size=(WIDTH, WIDTH))
    parts = 4 * labels[:, None] + rng.normal(size=(count, WIDTH)) @ mixing + shift * np.arange(WIDTH)
    images = rng.random((count, 1, 4, 4))
    drawn = images + rng.normal(0, 0.05 * (1 + labels + shift)[:, None, None, None], images.shape)
    return Evidence(scores, images, drawn, parts)._replace(**changes)


@pytest.fixture(scope="module")
def detector():
    return fit_detector(evidence(), "3,000 made images", false_alarm=0.1)


@pytest.mark.parametrize("n", range(len(RULES)))
def test_new_images_of_the_classes_give_the_stated_rate_of_false_alarms(detector, n):
    alarms = [reason is not None for reason in detector.rules[n].reasons(evidence(seed=1))]
    assert np.mean(alarms) == pytest.approx(0.1, abs=0.025)


def test_the_rate_holds_for_few_images_with_many_parts(detector):
    few = fit_detector(evidence(150, seed=2), "few", false_alarm=0.1)
    alarms = [reason is not None for reason in few.reasons(evidence(seed=3))]
    assert np.mean(alarms) == pytest.approx(0.1, abs=0.07)


def test_foreign_pictures_are_noticed_with_the_reason_that_stands_out(detector):
    usual = evidence(200, seed=4)
    far = usual._replace(parts=usual.parts + 100)
    assert set(detector.reasons(far)) == {MEASURES["votes"].reason}
    unlike = usual._replace(reconstruction=1 - usual.images)
    assert detector.reasons(unlike).count(MEASURES["reconstruction"].reason) > 190
    assert np.mean([r is None for r in detector.reasons(evidence(200, shift=9, seed=5))]) < 0.05


def test_without_a_decoder_the_lengths_remain(detector):
    usual = evidence(50)
    alone = Evidence(usual.scores)
    assert list(detector.rule_for(alone).yardsticks) == ["length"]
    without_parts = usual._replace(parts=None)
    assert list(detector.rule_for(without_parts).yardsticks) == ["length"]
    of_other_width = usual._replace(parts=usual.parts[:, :2])
    assert list(detector.rule_for(of_other_width).yardsticks) == ["length"]
    assert len(fit_detector(alone, "").rules) == 1


def test_json_gives_the_same_detector(detector):
    again = Detector.from_dict(json.loads(json.dumps(detector.to_dict(), allow_nan=False)), CLASSES)
    some = evidence(100, shift=2, seed=6)
    assert again.reasons(some) == detector.reasons(some)
    np.testing.assert_array_equal(again.rules[0].strangeness(some), detector.rules[0].strangeness(some))
    assert again.to_dict() == detector.to_dict()


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("rules"),
        lambda d: d.update(rules=[]),
        lambda d: d.update(false_alarm_percent=0),
        lambda d: d["rules"][0].update(threshold=math.nan),
        lambda d: d["rules"][0]["measures"].update(luck=d["rules"][0]["measures"]["length"]),
        lambda d: d["rules"][1]["measures"]["length"].update(means=[0.1, 0.2]),
        lambda d: d["rules"][1]["measures"]["length"].update(means=[0.1, 0.2, 0.0]),
        lambda d: d["parts"].update(size=MOST + 1),
        lambda d: d["parts"].update(size=WIDTH + 1),
        lambda d: d["parts"].update(means="no numbers"),
        lambda d: d.update(parts=None),
        lambda d: d.update(parts=[]),
    ],
)
def test_a_damaged_detector_is_refused_in_one_sentence(detector, damage):
    values = json.loads(json.dumps(detector.to_dict()))
    damage(values)
    with pytest.raises(CapsNetError, match=r"The card's detection is damaged: .*\."):
        Detector.from_dict(values, CLASSES)


def test_a_detector_for_other_classes_is_refused(detector):
    with pytest.raises(CapsNetError, match="damaged"):
        Detector.from_dict(detector.to_dict(), CLASSES + 1)


def test_nonsense_is_refused():
    with pytest.raises(CapsNetError, match="between 0 and 1"):
        fit_detector(evidence(50), "", false_alarm=1.0)
    with pytest.raises(CapsNetError, match="at least two images"):
        fit_detector(evidence(1), "")
    with pytest.raises(CapsNetError, match="not finite"):
        fit_detector(evidence(50)._replace(parts=np.full((50, WIDTH), np.nan)), "")


def test_the_distance_of_parts_is_mahalanobis_s():
    some = evidence(4000, seed=8)
    parts = fit_parts(some.parts, some.classes, CLASSES)
    off = some.parts - parts.means[some.classes]
    covariance = np.cov(off.T, ddof=1)
    covariance += (1e-3 + 0.1 * WIDTH / 4000) * np.trace(covariance) / WIDTH * np.eye(WIDTH)
    expected = np.einsum("ni,ij,nj->n", off, np.linalg.inv(covariance), off) / WIDTH
    np.testing.assert_allclose(parts.distance(some.parts, some.classes), expected, rtol=2e-3)
    assert expected.mean() == pytest.approx(1, abs=0.02)


def test_a_class_without_images_has_the_mean_of_all():
    some = evidence(60, seed=9)
    rows = some.classes != 2
    parts = fit_parts(some.parts[rows], some.classes[rows], CLASSES)
    np.testing.assert_allclose(parts.means[2], some.parts[rows].mean(axis=0), rtol=1e-5)


def test_flat_parts_and_perfect_scores_stay_finite():
    flat = Evidence(np.tile([1.0, 0.0], (40, 1)), parts=np.zeros((40, 4)))
    detector = fit_detector(flat, "", rules=(("votes",), ("length",)))
    for rule in detector.rules:
        assert np.isfinite(rule.strangeness(flat)).all()
    assert math.isfinite(fit_rule(("length",), flat, 0.05).threshold)


def test_energy_is_the_negative_logarithm_of_the_sum_of_exponentials():
    logits = np.array([[0.0, 1.0, 2.0], [1000.0, 0.0, 0.0]])
    got = MEASURES["energy"].compute(Evidence(np.ones((2, 3)), logits=logits))
    np.testing.assert_allclose(got, [-np.log(np.exp(logits[0]).sum()), -1000.0])
