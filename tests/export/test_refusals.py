"""What is refused: each in one sentence, and nothing half-written stays."""

import json

import numpy as np
import onnx
import pytest

import capsnet
from capsnet.cli import main
from capsnet.data import load_dataset
from capsnet.errors import CapsNetError
from capsnet.export import write
from capsnet.export.images import find_dataset, parity_images
from capsnet.export.metadata import FileCard
from capsnet.export.parity import relative_difference
from capsnet.export.runtime import OnnxModel
from capsnet.predict import predict_files


def test_a_file_that_differs_from_torch_is_not_kept(exported, tmp_path, monkeypatch):
    model = capsnet.load("efficient_capsnet.mnist")
    model.decoder = None
    graph = onnx.load(str(exported / "onnx" / "encoder.onnx"))
    for tensor in graph.graph.initializer:
        if len(tensor.dims) == 4:
            values = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values * np.float32(1.01), tensor.name))
    monkeypatch.setattr(write, "build_graph", lambda model, **options: graph)
    with pytest.raises(
        CapsNetError, match=r"the scores of encoder.onnx differ from torch's by .* at most 1e-04"
    ):
        write.export_model(model, tmp_path / "out", dataset=load_dataset("mnist"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_anything_is_not_touched(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    model = capsnet.create_model("cnn_small")
    with pytest.raises(CapsNetError, match="exists already and is not overwritten"):
        write.export_model(model, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_int8_without_a_data_set_says_what_to_do(tmp_path):
    with pytest.raises(
        CapsNetError, match="calibrated on training images, but no data set was given; name a data set"
    ):
        write.export_model(capsnet.create_model("cnn_small"), tmp_path / "out", format="int8")


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(CapsNetError, match="There is no format 'int4'; there are: onnx, int8"):
        write.export_model(capsnet.create_model("cnn_small"), tmp_path / "out", format="int4")


def test_without_a_data_set_images_are_random_and_the_card_will_say_why(tmp_path):
    model = capsnet.create_model("cnn_small")
    capsnet.save(model, tmp_path)
    dataset, why_not = find_dataset(capsnet.open_weights(tmp_path), required=False)
    images, source = parity_images(model, dataset, why_not)
    assert images.shape == (256, 1, 28, 28)
    assert source == "random, since the weights don't say what they were trained on"


def test_a_data_set_that_does_not_fit_is_refused_when_asked_for(tmp_path):
    capsnet.save(capsnet.create_model("cnn_hinton"), tmp_path)
    with pytest.raises(CapsNetError, match="take 2x32x32 images of 5 classes"):
        find_dataset(capsnet.open_weights(tmp_path, "mnist"), required=True)


def test_relative_difference_is_judged_within_each_image():
    expected = np.array([[1000.0, 1.0], [1.0, 0.5]])
    assert relative_difference(expected + np.array([[0.1, 0.1], [0, 0]]), expected) == pytest.approx(1e-4)
    assert relative_difference(expected + np.array([[0, 0], [0.1, 0]]), expected) == pytest.approx(0.1)
    assert relative_difference(expected * np.nan, expected) == float("inf")
    assert relative_difference(expected[:1], expected) == float("inf")


def test_predict_refuses_a_decoder_a_damaged_and_a_foreign_file(exported, tmp_path, capsys):
    seven = tmp_path / "seven.png"
    with pytest.raises(CapsNetError, match="makes pictures from capsules"):
        predict_files(str(exported / "onnx" / "decoder.onnx"), [seven])
    with pytest.raises(CapsNetError, match="There is no file"):
        predict_files(str(tmp_path / "none.onnx"), [seven])
    (tmp_path / "bad.onnx").write_bytes(b"not a graph")
    with pytest.raises(CapsNetError, match="is damaged or not an ONNX file"):
        OnnxModel(tmp_path / "bad.onnx")
    foreign = onnx.load(str(exported / "onnx" / "encoder.onnx"))
    del foreign.metadata_props[:]
    onnx.save(foreign, str(tmp_path / "foreign.onnx"))
    with pytest.raises(SystemExit) as stop:
        main(["predict", str(tmp_path / "foreign.onnx"), str(seven)])
    assert stop.value.code == 2
    assert "was not written by capsnet export" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"card": "{"}, "is damaged"),
        ({"card": "[]"}, "is damaged"),
        ({"card": '{"format_version": 1, "image_shape": [1, 28, Infinity]}'}, "is damaged"),
        ({"card": '{"format_version": 99}'}, "has format version 99"),
        ({"card": '{"format_version": 1, "image_shape": [1, 2]}'}, "is damaged"),
    ],
)
def test_bad_metadata_is_refused(entries, message):
    with pytest.raises(CapsNetError, match=message):
        FileCard.from_metadata(entries, "a.onnx")


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("card", {"num_classes": 10**12}, "10 class names for 1000000000000 classes"),
        ("card", {"image_shape": [1, 28, 10**6]}, "Images of 1x28x1000000 are too large"),
        ("card", {"image_shape": [1, 32, 32]}, r"its images have shape \[1, 28, 28\], its metadata says"),
        ("preprocessing", {"resize": [40_000, 40_000]}, "gives images of 40000x40000 pixels"),
        ("preprocessing", {"mean": [0.1] * 5, "std": [1.0] * 5}, "a mean for 5 channels"),
        ("class_names", ["0"] * 10, "Two classes have the same name, '0'"),
        ("class_names", ["a", "b"], "2 class names for 10 classes"),
    ],
)
def test_metadata_that_is_not_the_graphs_is_refused(part, changes, message, exported, tmp_path):
    graph = onnx.load(str(exported / "onnx" / "encoder.onnx"))
    for entry in graph.metadata_props:
        if entry.key == part:
            changed = {**json.loads(entry.value), **changes} if isinstance(changes, dict) else changes
            entry.value = json.dumps(changed)
    onnx.save(graph, str(tmp_path / "a.onnx"))
    with pytest.raises(CapsNetError, match=message):
        OnnxModel(tmp_path / "a.onnx")


def test_classes_of_unnamed_outputs_are_compared_with_the_graph(exported, tmp_path):
    graph = onnx.load(str(exported / "onnx" / "encoder.onnx"))
    for entry in graph.metadata_props:
        if entry.key == "class_names":
            entry.value = "[]"
        if entry.key == "card":
            entry.value = json.dumps({**json.loads(entry.value), "num_classes": 10**12, "detection": {}})
    onnx.save(graph, str(tmp_path / "a.onnx"))
    with pytest.raises(
        CapsNetError, match=r"its scores have shape \[10\], its metadata says \[1000000000000\]"
    ):
        OnnxModel(tmp_path / "a.onnx")
