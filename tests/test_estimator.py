"""CapsNetClassifier: scikit-learn's own checks, its tools, and how arrays become images."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import capsnet
from capsnet import CapsNetClassifier, CapsNetError
from capsnet.config import Recipe
from capsnet.train.arrays import train_on_arrays

# check -> reason. None is expected: a failure is a fault.
EXPECTED_FAILURES: dict[str, str] = {}

QUICK = {"epochs": 1, "reconstruction": False, "random_state": 0, "device": "cpu"}


@parametrize_with_checks(
    [CapsNetClassifier(**QUICK)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    """8x8 digits of three classes, (n, H, W), and their labels."""
    images, labels = load_digits(n_class=3, return_X_y=True)
    return images[:200].reshape(-1, 8, 8), labels[:200]


def test_learns_digits_and_scores_unseen_ones(digits):
    images, labels = digits
    classifier = CapsNetClassifier(**QUICK | {"epochs": 6}).fit(images[:150], labels[:150])
    assert classifier.score(images[150:], labels[150:]) > 0.9
    assert classifier.image_shape_ == (1, 24, 24)
    assert len(classifier.loss_curve_) == 6
    assert classifier.loss_curve_[-1] < classifier.loss_curve_[0]


def test_all_layouts_of_the_same_images_give_the_same_network(digits):
    images, labels = digits[0][:40], digits[1][:40]
    flat = images.reshape(40, -1)
    layouts = {
        "square": (flat, None),
        "flat": (flat, (8, 8)),
        "flat with a channel": (flat, (1, 8, 8)),
        "(n, H, W)": (images, None),
        "(n, C, H, W)": (images[:, None], None),
    }
    lengths = [
        CapsNetClassifier(image_shape=shape, **QUICK).fit(X, labels).capsule_lengths(X)
        for X, shape in layouts.values()
    ]
    for other in lengths[1:]:
        assert np.array_equal(other, lengths[0])


def test_probabilities_sum_to_one_and_poses_are_as_long_as_the_lengths(digits):
    images, labels = digits
    names = np.array(["zero", "one", "two"])[labels[:60]]
    classifier = CapsNetClassifier(**QUICK).fit(images[:60], names)
    assert list(classifier.classes_) == ["one", "two", "zero"]
    assert classifier.model_.card.class_names == ("one", "two", "zero")
    lengths, shares = classifier.capsule_lengths(images[:5]), classifier.predict_proba(images[:5])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert list(classifier.predict(images[:5])) == list(classifier.classes_[lengths.argmax(axis=1)])
    poses = classifier.transform(images[:5])
    assert poses.shape == (5, 3 * 16)
    assert len(classifier.get_feature_names_out()) == 48
    np.testing.assert_allclose(np.linalg.norm(poses.reshape(5, 3, 16), axis=2), lengths, atol=1e-3)


def test_works_in_a_pipeline_cross_validation_and_a_grid_search(digits):
    images, labels = digits[0][:60].reshape(60, -1), digits[1][:60]
    pipeline = make_pipeline(StandardScaler(), CapsNetClassifier(image_shape=(8, 8), **QUICK))
    assert cross_val_score(pipeline, images, labels, cv=2).shape == (2,)
    search = GridSearchCV(pipeline, {"capsnetclassifier__learning_rate": [1e-3, 3e-3]}, cv=2)
    search.fit(images, labels)
    assert search.best_params_["capsnetclassifier__learning_rate"] in (1e-3, 3e-3)
    assert search.best_estimator_[-1].n_features_in_ == 64


def test_the_same_random_state_gives_the_same_network_and_leaves_torch_s_numbers_alone(digits):
    images, labels = digits[0][:40], digits[1][:40]
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    first, second = (CapsNetClassifier(**QUICK).fit(images, labels) for _ in range(2))
    assert torch.equal(torch.rand(4), expected)
    assert np.array_equal(first.capsule_lengths(images), second.capsule_lengths(images))
    third = CapsNetClassifier(**QUICK | {"random_state": 1}).fit(images, labels)
    assert not np.array_equal(first.capsule_lengths(images), third.capsule_lengths(images))


@pytest.mark.parametrize("model", ["base_capsnet", "cnn_small"])
def test_other_models_fit_too_with_reconstruction_and_the_result_can_be_saved(model, digits, tmp_path):
    images, labels = digits[0][:40], digits[1][:40]
    settings = QUICK | {"reconstruction": True}
    classifier = CapsNetClassifier(model, **settings).fit(images, labels)
    capsnet.save(classifier.model_, tmp_path / "weights")
    loaded = capsnet.load(tmp_path / "weights")
    assert loaded.card.class_names == ("0", "1", "2")
    assert loaded.image_shape == (1, 24, 24)


@pytest.mark.parametrize(
    ("settings", "shape", "message"),
    [
        ({"image_shape": (5, 5)}, (10, 64), "64 features a row, which don't make images of"),
        ({"image_shape": (5, 5)}, (10, 8, 8), "image_shape is .5, 5., but X has images of .8, 8."),
        ({}, (10, 1, 1, 8, 8), "got 5 axes"),
        ({"model": "none"}, (10, 64), "There is no model 'none'"),
        ({"recipe": "none"}, (10, 64), "There is no recipe 'none'"),
        ({"model_options": {"colour": 1}, "model": "cnn_small"}, (10, 64), "has no option 'colour'"),
        ({"epochs": 0}, (10, 64), "epochs is at least 1"),
    ],
)
def test_what_does_not_fit_is_refused_in_fit(settings, shape, message):
    with pytest.raises(CapsNetError, match=message):
        CapsNetClassifier(**settings).fit(np.random.default_rng(0).random(shape), np.arange(10) % 2)


def test_one_class_and_other_images_than_fitted_are_refused(digits):
    images, labels = digits[0][:20], digits[1][:20]
    with pytest.raises(CapsNetError, match="at least 2 classes; got 1 class"):
        CapsNetClassifier(**QUICK).fit(images, labels * 0)
    classifier = CapsNetClassifier(**QUICK).fit(images, labels)
    with pytest.raises(CapsNetError, match=r"rows of shape .8, 9., but was fitted on .8, 8."):
        classifier.predict(np.zeros((2, 8, 9)))


def test_a_loss_that_is_not_finite_stops_training():
    model = capsnet.create_model("cnn_small", (1, 20, 20), 2, decoder=False)
    recipe = Recipe("test", epochs=3, batch_size=4, learning_rate=1e30)
    with pytest.raises(CapsNetError, match="no longer a finite number in epoch"):
        train_on_arrays(model, torch.rand(8, 1, 20, 20), torch.arange(8) % 2, recipe, 0)


def test_without_scikit_learn_the_name_says_what_to_install():
    code = (
        "import sys; sys.modules['sklearn'] = None\nimport capsnet\n"
        "try: capsnet.CapsNetClassifier\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'capsnet[sklearn]'" in done.stdout
