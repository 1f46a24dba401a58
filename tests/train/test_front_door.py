"""`capsnet.train`, and the settings by which one steers a training."""

import contextlib
import dataclasses
import importlib
import inspect
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import capsnet
from capsnet.config import Config, Recipe
from capsnet.errors import CapsNetError
from capsnet.evaluate.predictions import read_predictions
from capsnet.train import Callback, budget, loop
from capsnet.train.loop import Training
from capsnet.train.prepare import plan_run
from capsnet.train.state import exhausted
from capsnet.train.step import Learner, smooth

SHORT = {
    "epochs": 1,
    "limit": 80,
    "validation": 16,
    "threads": 1,
    "model_options": {"decoder": False},
    "progress": False,
}


def weights(folder):
    return capsnet.load(folder).state_dict()


def assert_same_bits(one, other):
    for key, value in weights(one).items():
        assert torch.equal(value, weights(other)[key]), key


def test_train_returns_the_model_the_result_and_the_history(tmp_path):
    run = capsnet.train("sliced_mnist", out=tmp_path / "run", **SHORT)
    assert run.result == json.loads((tmp_path / "run" / "result.json").read_text())
    assert [row["epoch"] for row in run.history] == [1]
    assert not run.model.training
    predictions = read_predictions(run.folder)
    images = capsnet.data.load_dataset("sliced_mnist")
    batch = next(images.evaluation_batches(images.test, 64))
    torch.testing.assert_close(run.model(batch.images).scores, predictions.scores[:64])
    again = capsnet.train("sliced_mnist", out=tmp_path / "run", resume=True, **SHORT)
    assert again.result == run.result


def test_its_signature_is_that_of_a_function_and_it_is_still_a_package():
    assert next(iter(inspect.signature(capsnet.train).parameters)) == "dataset"
    assert importlib.import_module("capsnet.train.loop").train is not capsnet.train


def test_callbacks_see_the_model_and_its_loss(tmp_path):
    class Watch(Callback):
        losses: list[float]

        def on_train_start(self, run):
            self.losses, self.before = [], run.model.encoder.state_dict()["blocks.0.conv.weight"].clone()

        def on_step(self, run):
            self.losses.append(run.loss)

        def on_epoch_end(self, run, row):
            assert row is run.history[-1]
            self.moved = not torch.equal(run.model.encoder.state_dict()["blocks.0.conv.weight"], self.before)

    watch = Watch()
    run = capsnet.train("sliced_mnist", out=tmp_path / "run", callbacks=[watch], **SHORT)
    assert watch.moved
    sizes = [3] * 21 + [1]
    mean = sum(loss * n for loss, n in zip(watch.losses, sizes, strict=True)) / 64
    assert run.history[0]["loss"] == pytest.approx(mean)


def test_cores_are_shared_while_training_lasts(monkeypatch, tmp_path):
    watched = []

    @contextlib.contextmanager
    def watch(threads):
        watched.append(threads)
        yield
        watched.append("ended")

    monkeypatch.setattr(loop, "sharing_cores", watch)
    capsnet.train(
        "sliced_mnist", out=tmp_path / "run", **{**SHORT, "limit": 16, "validation": None}, test=False
    )
    assert watched == [1, "ended"]


def blobs(n=120, classes=3):
    """Images whose brightness is their class."""
    drawing = np.random.default_rng(0)
    labels = drawing.integers(0, classes, n)
    noise = drawing.integers(0, 60, (n, 24, 24))
    return (noise + 60 * labels[:, None, None]).astype(np.uint8), labels


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_arrays_are_trained_on_and_their_run_is_one_like_any_other(tmp_path, kind):
    images, labels = blobs()
    options = {**SHORT, "limit": None, "validation": None}
    run = capsnet.train((kind(images), kind(labels)), out=tmp_path / "run", **options)
    assert run.result["test_images"] == pytest.approx(24, abs=8)
    opened = capsnet.open_weights(run.folder)
    assert opened.dataset.test_images == run.result["test_images"]
    assert opened.is_training_data
    (file,) = tmp_path.glob("arrays-*.npz")
    before = file.stat().st_mtime_ns
    named = {"x_train": images, "y_train": labels}
    other = capsnet.train(named, out=tmp_path / "other", **options)
    assert file.stat().st_mtime_ns == before
    assert_same_bits(run.folder, other.folder)


def test_what_is_no_data_set_is_refused_in_a_sentence(tmp_path):
    images, labels = blobs()
    with pytest.raises(CapsNetError, match="A data set is a name, a path, arrays"):
        capsnet.train((images, labels, images), out=tmp_path / "run")
    with pytest.raises(CapsNetError, match="A data set is a name, a path, arrays"):
        capsnet.train(images, out=tmp_path / "run")
    with pytest.raises(CapsNetError, match="no place for the array 'x_tets'"):
        capsnet.train({"x_train": images, "y_train": labels, "x_tets": images}, out=tmp_path / "run")
    with pytest.raises(CapsNetError, match="120 pictures but 119 labels"):
        capsnet.train((images, labels[1:]), out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_patience_ends_a_run_and_resuming_it_does_not_take_it_up_again(tmp_path):
    settings = {**SHORT, "epochs": 30, "learning_rate": 1e-12, "patience": 2, "test": False}
    settings["average"] = None
    run = capsnet.train("sliced_mnist", out=tmp_path / "run", recipe="paper", **settings)
    scores = [(row["validation_error_percent"], row["validation_loss"]) for row in run.history]
    assert len(scores) < 30
    assert len(scores) - 1 - scores.index(min(scores)) == 2
    assert run.result["selected"]["epoch"] == scores.index(min(scores)) + 1
    (tmp_path / "run" / "result.json").unlink()
    again = capsnet.train("sliced_mnist", out=tmp_path / "run", recipe="paper", resume=True, **settings)
    assert again.history == run.history


def test_patience_counts_epochs_since_the_best_one():
    def rows(*errors):
        return [{"validation_error_percent": error, "validation_loss": 1.0} for error in errors]

    assert not exhausted(rows(3, 2, 2), 2)  # an equal score is no better one
    assert exhausted(rows(3, 2, 2, 2), 2)
    assert not exhausted(rows(3, 2, 4, 1), 2)
    assert not exhausted(rows(3, 4, 5), None)
    assert not exhausted([], 1)


def test_patience_without_validation_is_refused(tmp_path):
    with pytest.raises(CapsNetError, match="--patience needs validation images"):
        capsnet.train("sliced_mnist", out=tmp_path / "run", **{**SHORT, "validation": 0}, patience=1)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("timed") / "run"
    settings = {**SHORT, "epochs": None, "minutes": 0.05, "test": False}
    return capsnet.train("sliced_mnist", out=folder, **settings)


def test_a_time_budget_is_kept_and_its_images_are_recorded(timed):
    run = timed
    config = Config.from_dict(json.loads((run.folder / "config.json").read_text()))
    assert config.recipe.minutes == 0.05
    batch = run.result["batch_size"]
    # An epoch's last batch is smaller than the others.
    assert abs(run.result["images_seen"] - config.recipe.images) <= batch * (len(run.history) + 1)


def test_the_images_that_fit_follow_from_the_speed_of_steps_and_of_validation(tmp_path, monkeypatch):
    clock = [0.0]

    def step(self, batch, number):
        clock[0] += 0.125
        return 1.0

    def validate(model, dataset, split, **_):
        clock[0] += 0.5

    monkeypatch.setattr(budget.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(budget.Learner, "step", step)
    monkeypatch.setattr(budget, "evaluate", validate)
    monkeypatch.setattr(Training, "fit", lambda self: None)
    monkeypatch.setattr("capsnet.train.loop.finish", lambda run: {"images": run.recipe.images})
    settings = {**SHORT, "epochs": None, "minutes": 1, "out": tmp_path / "run"}
    images = capsnet.train("sliced_mnist", **settings).result["images"]
    # Measuring ends when 5 % of the minute are over: after 25 steps of 3 images, of which 22 are counted, one with 1 image.
    measured, per_image = 25 * 0.125 + 0.5, 22 * 0.125 / (22 * 3 - 2) + 0.5 / 64
    assert images == round((60 - measured) / per_image)


def test_a_timed_run_repeated_from_its_configuration_takes_the_same_steps_to_the_same_bits(timed, tmp_path):
    run = timed
    config = Config.from_dict(json.loads((run.folder / "config.json").read_text()))
    again = capsnet.train(None, config=config, out=tmp_path / "again", progress=False)
    assert again.result["images_seen"] == run.result["images_seen"]
    assert_same_bits(run.folder / "last", again.folder / "last")


def test_a_timed_run_resumes_with_the_budget_that_it_measured(timed, tmp_path, monkeypatch):
    class Break(Callback):
        def on_step(self, run):
            if run.step == 5:
                raise ConnectionAbortedError

    run = timed
    images = Config.from_dict(json.loads((run.folder / "config.json").read_text())).recipe.images
    settings = {**SHORT, "epochs": None, "minutes": 0.05, "test": False, "out": tmp_path / "run"}
    monkeypatch.setattr("capsnet.train.loop.images_within", lambda *_: images)
    with pytest.raises(ConnectionAbortedError):
        capsnet.train("sliced_mnist", callbacks=[Break()], save_every=0, **settings)
    monkeypatch.setattr("capsnet.train.loop.images_within", lambda *_: pytest.fail("measured again"))
    capsnet.train("sliced_mnist", resume=True, **settings)
    assert_same_bits(run.folder / "last", tmp_path / "run" / "last")


def test_measuring_a_budget_leaves_the_model_alone(tmp_path, monkeypatch):
    """A run that measures ends with the bits of one that is told the number."""
    measured = []
    original = budget.images_within

    def watched(*arguments):
        measured.append(original(*arguments))
        return 100

    monkeypatch.setattr("capsnet.train.loop.images_within", watched)
    settings = {**SHORT, "epochs": None, "test": False}
    capsnet.train("sliced_mnist", out=tmp_path / "timed", minutes=0.01, **settings)
    capsnet.train("sliced_mnist", out=tmp_path / "told", images=100, **settings)
    assert measured[0] >= 1
    assert_same_bits(tmp_path / "timed" / "last", tmp_path / "told" / "last")


def test_balanced_classes_are_shown_equally_often(tmp_path, monkeypatch):
    images, labels = blobs(200)
    keep = np.concatenate([np.flatnonzero(labels == 0), *(np.flatnonzero(labels == j)[:12] for j in (1, 2))])
    shown = []

    class Watch(Callback):
        def on_epoch_start(self, run):
            labels = run.train_split.labels
            shown.append(torch.cat([labels[rows] for _, rows in run.batches(0)]).bincount())

    for balanced in (True, False):
        capsnet.train(
            (images[keep], labels[keep]),
            out=tmp_path / f"run{balanced}",
            callbacks=[Watch()],
            **{**SHORT, "limit": None, "validation": 4, "balanced": balanced, "test": False},
        )
    even, plain = shown
    assert int(even.max() - even.min()) <= 1
    assert int(plain.max()) > 3 * int(plain.min())
    assert int(even.sum()) == int(plain.sum())


def test_smoothed_targets_keep_their_sum():
    targets = torch.tensor([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]])
    smoothed = smooth(targets, 0.2)
    torch.testing.assert_close(smoothed[0], torch.tensor([0.05, 0.85, 0.05, 0.05]))
    torch.testing.assert_close(smoothed.sum(dim=1), targets.sum(dim=1))


def first_loss(recipe, batch):
    torch.manual_seed(0)
    model = capsnet.create_model("cnn_small", decoder=False).train()
    return Learner(model, recipe, plan_run(recipe, 32)).step(batch, 0)


def test_a_step_learns_from_smoothed_targets():
    dataset = capsnet.data.load_dataset("sliced_mnist")
    batch = next(dataset.evaluation_batches(dataset.train, 32))
    plain = Recipe("tiny", epochs=1, batch_size=32, learning_rate=1e-3)
    smoothing = dataclasses.replace(plain, label_smoothing=0.2)
    expected = first_loss(plain, batch._replace(targets=smooth(batch.targets, 0.2)))
    assert first_loss(smoothing, batch) == expected != first_loss(plain, batch)


def test_label_smoothing_is_refused_for_networks_trained_with_a_margin(tmp_path):
    with pytest.raises(CapsNetError, match=r"--label-smoothing is for networks trained with cross-entropy"):
        capsnet.train("sliced_mnist", out=tmp_path / "refused", **SHORT, label_smoothing=0.1)
    assert not (tmp_path / "refused").exists()


def test_the_default_folder_is_that_of_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = capsnet.train("sliced_mnist", **SHORT, test=False)
    assert run.folder == Path("runs/sliced_mnist-efficient_capsnet-quick-s0")
    assert dataclasses.is_dataclass(run)
