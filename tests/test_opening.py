"""`open_weights`: the model with the data that it was trained on, whatever command asks and whoever names the data."""

import dataclasses
import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import capsnet
from capsnet.card import Card
from capsnet.cli import main
from capsnet.data import load_dataset
from capsnet.data.hold_out import hold_out
from capsnet.data.manifest import read_manifest
from capsnet.errors import CapsNetError
from capsnet.opening import fit_dataset, order_classes

SIZE = 24  # which the pictures don't have, and which no default gives
CLASSES = ("[red] cat", "dog")  # a name that markup would swallow


def draw_pictures(folder: Path, classes=CLASSES, images: int = 16) -> Path:
    """Colour pictures of 40 x 32 pixels, each class of its own hue."""
    generator = np.random.default_rng(0)
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for n in range(images):
            pixels = generator.integers(0, 90, (32, 40, 3), dtype=np.uint8)
            pixels[..., number] += 150
            Image.fromarray(pixels).save(folder / name / f"{n}.png")
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with `pictures`, and `run`, trained on them at another size."""
    place = tmp_path_factory.mktemp("own place")
    draw_pictures(place / "pictures")
    words = ["--image-size", str(SIZE), "--epochs", "2", "--threads", "1", "--validation", "6"]
    main(["train", str(place / "pictures"), *words, "--out", str(place / "run")])
    return place


@pytest.fixture(params=[False, True], ids=["not named", "named"])
def named(request, place) -> list[str]:
    return [str(place / "pictures")] if request.param else []


def run(capfd, *words):
    capfd.readouterr()
    main([str(word) for word in (*words, "--json")])
    return json.loads(capfd.readouterr().out)


def result_of(place: Path) -> dict:
    return json.loads((place / "run" / "result.json").read_text())


def test_eval_gives_the_runs_own_test_error(place, named, capfd):
    told = run(capfd, "eval", place / "run", *named)
    assert told["errors"] == result_of(place)["test_errors"]
    assert told["images"] == result_of(place)["test_images"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("errors", ()),
        ("reconstruct", ()),
        ("perturb", ()),
        ("routing", ()),
        ("calibration", ()),
        ("equivariance", ("--images", "4", "--linear-images", "6")),
    ],
)
def test_analyses_work(place, named, command, words, capfd, tmp_path):
    told = run(capfd, "analyze", command, place / "run", *named, "--out", tmp_path, *words)
    assert told["files"] or command == "errors"


def test_ensembles_of_a_run_without_kept_predictions_work(place, capfd, tmp_path):
    bare = shutil.copytree(place / "run", tmp_path / "bare")
    (bare / "predictions.safetensors").unlink()
    told = run(capfd, "ensemble", bare, place / "run")
    assert [m["test_error_percent"] for m in told["members"]] == 2 * [result_of(place)["test_error_percent"]]
    assert [m["run"] for m in told["members"]] == ["bare", "run"]


def test_export_and_predict_work(place, named, run_without_shape_checks, capfd, tmp_path):
    words = ["--dataset", *named] if named else []
    run_without_shape_checks(
        "import sys; from capsnet.cli import main; main(sys.argv[1:])",
        *("export", place / "run", "--format", "int8", "--out", tmp_path / "int8", *words),
    )
    picture = place / "pictures" / CLASSES[1] / "0.png"
    (made,) = run(capfd, "predict", tmp_path / "int8" / "encoder.onnx", picture)
    assert set(made["scores"]) == set(CLASSES)
    for file in (tmp_path / "int8").iterdir():
        assert str(place).encode() not in file.read_bytes(), (
            "a path of this machine in a file that may be given away"
        )


def test_the_data_are_those_of_training(place):
    opened = capsnet.open_weights(place / "run")
    assert opened.dataset.image_shape == (3, SIZE, SIZE)
    assert opened.is_training_data
    assert dict(opened.dataset.digests) == result_of(place)["data"]
    again = capsnet.open_weights(place / "run", str(place / "pictures" / ".." / "pictures"))
    assert again.is_training_data


def test_a_relative_path_is_found_from_another_folder(place, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    words = ["--image-size", str(SIZE), "--epochs", "1", "--threads", "1", "--validation", "0"]
    main(["train", "pictures", *words, "--out", str(tmp_path / "run")])
    monkeypatch.chdir(tmp_path)
    dataset = capsnet.open_weights("run").dataset
    assert dataset.test_images == result_of(place)["test_images"]
    assert dataset.name == "pictures", "what it was called, not where it lies"


def test_pictures_that_have_gone_are_named(place, tmp_path):
    moved = shutil.copytree(place, tmp_path / "moved")
    config = moved / "run" / "best" / "config.json"
    config.write_text(config.read_text().replace(str(place), str(tmp_path / "gone")))
    with pytest.raises(CapsNetError, match=r"are no longer at .*gone/pictures; name the data set"):
        _ = capsnet.open_weights(moved / "run").dataset
    opened = capsnet.open_weights(moved / "run", str(moved / "pictures"))
    assert opened.is_training_data, "the same content in another place"


def warnings_of(weights, caplog) -> str:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        _ = capsnet.open_weights(weights).dataset
    return caplog.text


def test_changed_data_are_told(place, tmp_path, caplog):
    moved = shutil.copytree(place, tmp_path / "moved")
    config = moved / "run" / "best" / "config.json"
    config.write_text(config.read_text().replace(str(place), str(moved)))
    # A run lists its pictures; weights that were taken out of it have their digests.
    alone = shutil.copytree(moved / "run" / "best", tmp_path / "alone")
    assert warnings_of(moved / "run", caplog) == warnings_of(alone, caplog) == ""
    for file in (moved / "pictures" / CLASSES[0]).glob("1*.png"):
        file.unlink()
    assert "have changed since" in warnings_of(moved / "run", caplog)
    told = warnings_of(alone, caplog)
    assert "has changed since" in told
    assert "test, train" in told


def test_what_training_held_out_stays_held_out_when_pictures_go(place, tmp_path):
    moved = shutil.copytree(place, tmp_path / "moved")
    config = moved / "run" / "best" / "config.json"
    config.write_text(config.read_text().replace(str(place), str(moved)))
    before = capsnet.open_weights(moved / "run")
    train, held_out = before.split_training()
    drawn = hold_out(before.dataset, count=6)
    assert all(torch.equal(a.images, b.images) for a, b in zip((train, held_out), drawn, strict=True))
    manifest = read_manifest(moved / "run" / "manifest.csv").entries
    for file in [entry.file for entry in manifest if entry.split == "train"][:-4]:
        (moved / "pictures" / file).unlink()
    opened = capsnet.open_weights(moved / "run")
    fewer, same = opened.split_training()
    assert len(fewer.labels) == 4
    assert torch.equal(same.images, held_out.images)


def test_other_pictures_are_brought_to_the_models_size(place, tmp_path):
    draw_pictures(tmp_path / "others", images=6)
    opened = capsnet.open_weights(place / "run", str(tmp_path / "others"))
    assert opened.dataset.image_shape == (3, SIZE, SIZE)
    assert not opened.is_training_data


def test_classes_are_matched_by_name_not_by_position():
    dataset = load_dataset("mnist")
    names = tuple(reversed(dataset.class_names))
    renumbered = order_classes(dataset, names, "w")
    assert renumbered.class_names == names
    for before, after in ((dataset.train, renumbered.train), (dataset.test, renumbered.test)):
        assert torch.equal(after.labels, 9 - before.labels)
        assert after.images is before.images, "pairs tell the test images by it"
    assert order_classes(dataset, dataset.class_names, "w") is dataset


def test_the_error_does_not_depend_on_the_order_of_the_classes(tmp_path, capfd):
    model = capsnet.load("efficient_capsnet.mnist")
    order = torch.arange(9, -1, -1)
    for parameter in model.encoder.capsules[-1].parameters():  # the classes come first in each
        parameter.data = parameter.data[order].contiguous()
    names = tuple(reversed(model.card.class_names))
    capsnet.save(model, tmp_path / "turned", card=dataclasses.replace(model.card, class_names=names))
    errors = [run(capfd, "eval", w)["errors"] for w in ("efficient_capsnet.mnist", tmp_path / "turned")]
    assert errors[0] == errors[1] < 100


def test_other_classes_are_refused(place, tmp_path):
    draw_pictures(tmp_path / "others", ("horse", "dog"), images=6)
    with pytest.raises(
        CapsNetError, match=r"don't know the class 'horse' .* their classes are: \[red\] cat, dog"
    ):
        _ = capsnet.open_weights(place / "run", str(tmp_path / "others")).dataset


def test_the_cards_own_preprocessing_is_used():
    dataset, model = load_dataset("mnist"), capsnet.create_model("efficient_capsnet")
    model.card = Card(preprocessing={**dataset.preprocessing.to_dict(), "divisor": 128.0})
    fitted = fit_dataset(dataset, model, "w")
    first = torch.arange(2)
    before, after = (next(d.evaluation_batches(d.test.select(first), 2)).images for d in (dataset, fitted))
    torch.testing.assert_close(after, 2 * before)


def test_two_classes_of_one_name_are_refused(tmp_path):
    arrays = {"x_train": np.zeros((8, 20, 20), np.uint8), "y_train": np.arange(8) % 2}
    np.savez_compressed(tmp_path / "a.npz", **arrays, class_names=["same", "same"])
    with pytest.raises(CapsNetError, match="Two classes have the same name, 'same'"):
        load_dataset(str(tmp_path / "a.npz"))


def test_a_damaged_provenance_is_one_sentence(tmp_path):
    card = Card(provenance={"dataset": "mnist", "seed": "zero"})
    capsnet.save(capsnet.create_model("cnn_small"), tmp_path, card=card)
    with pytest.raises(CapsNetError, match="its 'seed' cannot be 'zero'"):
        capsnet.open_weights(tmp_path)


def test_markup_in_names_of_files_and_classes_is_printed_as_it_is(place, tmp_path, capsys):
    picture = tmp_path / "[bold]a :cat:.png"
    shutil.copy(place / "pictures" / CLASSES[0] / "0.png", picture)
    main(["predict", str(place / "run"), str(picture)])
    printed = "".join(capsys.readouterr().out.split())
    assert "[bold]a:cat:.png" in printed
    assert "[red]cat" in printed


def test_the_options_of_training_are_used_and_can_be_overridden(tmp_path):
    model = capsnet.load("efficient_capsnet.multimnist")
    card = dataclasses.replace(
        model.card, provenance={"dataset": "multimnist", "dataset_options": {"shift": 6}}
    )
    capsnet.save(model, tmp_path, card=card)
    for named in (None, "multimnist"):
        assert capsnet.open_weights(tmp_path, named).dataset.shift == 6
    assert capsnet.open_weights(tmp_path, "multimnist", shift=4).dataset.shift == 4
    with pytest.raises(CapsNetError, match="has no option 'image_size'"):
        _ = capsnet.open_weights(tmp_path, image_size=9).dataset


def test_an_older_card_is_completed_by_its_runs_configuration(place, tmp_path):
    run = shutil.copytree(place / "run", tmp_path / "run")
    model = capsnet.load(run)
    older = {k: v for k, v in model.card.provenance.items() if k not in ("hold_out", "fold", "limit", "data")}
    capsnet.save(model, run / "best", card=dataclasses.replace(model.card, provenance=older))
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "hold_out": "stretches", "limit": 20}))
    told = capsnet.open_weights(run).trained_on
    assert (told.hold_out, told.limit, told.fold) == ("stretches", 20, None)
