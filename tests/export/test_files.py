"""The bundled weights as ONNX files: small, equal to torch, int8 where they say so, and nothing of this machine in them."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import capsnet
from capsnet.export.runtime import OnnxModel
from capsnet.predict import predict_files

SEVEN = Path(__file__).parents[2] / "docs" / "seven.png"
FORMATS = ("onnx", "int8")
PARTS = ("encoder", "decoder", "model")


def other_images(n=64):
    """Real images beyond those that the export was judged by."""
    digits = capsnet.data.load_dataset("mnist")
    return digits.preprocessing.apply(digits.test.images[1000 : 1000 + n])


def test_sizes_are_within_their_bars(exported):
    assert (exported / "onnx" / "encoder.onnx").stat().st_size < 750_000
    assert (exported / "int8" / "encoder.onnx").stat().st_size < 250_000


def test_float_files_equal_torch_on_other_images(exported):
    model = capsnet.load("efficient_capsnet.mnist")
    images = other_images()
    with torch.inference_mode():
        expected = model(images)
        pictures = model.reconstruct(expected.poses)
    whole = OnnxModel(exported / "onnx" / "model.onnx", threads=1)
    for n in (1, 3, 64):
        got = whole.run({"images": images[:n].numpy()})
        np.testing.assert_allclose(got["scores"], expected.scores[:n], rtol=1e-4)
        np.testing.assert_allclose(got["poses"], expected.poses[:n], atol=1e-5)
        np.testing.assert_allclose(got["reconstruction"], pictures[:n], atol=1e-4)


@pytest.mark.parametrize("format", FORMATS)
def test_encoder_then_decoder_is_the_whole_model(exported, format):
    encoder, decoder, whole = (OnnxModel(exported / format / f"{part}.onnx", threads=1) for part in PARTS)
    images = other_images(5).numpy()
    expected = whole.run({"images": images})
    half = encoder.run({"images": images})
    assert np.array_equal(half["scores"], expected["scores"])
    inputs = {"poses": half["poses"], "classes": half["scores"].argmax(axis=1)}
    # A processor may sum a product in another order when it stands in another graph.
    np.testing.assert_allclose(
        decoder.run(inputs)["reconstruction"],
        expected["reconstruction"],
        atol=1e-5 if format == "onnx" else 0.05,
    )


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("part", PARTS)
def test_files_are_valid_have_their_weights_inside_and_take_float32(exported, format, part):
    file = exported / format / f"{part}.onnx"
    graph = onnx.load(str(file), load_external_data=False)
    onnx.checker.check_model(graph, full_check=True)
    assert not any(tensor.external_data for tensor in graph.graph.initializer)
    first = graph.graph.input[0]
    assert first.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert first.type.tensor_type.shape.dim[0].dim_param
    content = file.read_bytes()
    for trace in (b"pkg.torch", b"site-packages", b".py", b"stack_trace", str(Path.home()).encode() + b"/"):
        assert trace not in content, trace


@pytest.mark.parametrize("format", FORMATS)
def test_the_metadata_is_the_card(exported, format):
    told = json.loads((exported / format / "card.json").read_text())
    model = capsnet.load("efficient_capsnet.mnist")
    for part in PARTS:
        opened = OnnxModel(exported / format / f"{part}.onnx", threads=1)
        assert opened.part == part
        assert opened.class_names == tuple("0123456789")
        assert opened.card.preprocessing == model.card.preprocessing == told["preprocessing"]
        assert opened.card.provenance == model.card.provenance
        assert opened.card.score == told["score"]
        assert opened.image_shape == (1, 28, 28)
        assert (
            told["export"]["files"][f"{part}.onnx"]["bytes"]
            == (exported / format / f"{part}.onnx").stat().st_size
        )


def test_the_card_says_how_the_files_were_judged(exported):
    judged = json.loads((exported / "onnx" / "card.json").read_text())["export"]["parity"]
    assert judged["images"] == 256
    assert judged["from"] == "mnist test"
    differences = judged["largest_relative_difference"]["float32"]
    assert set(differences) == set(PARTS)
    assert all(0 <= value <= 1e-4 for outputs in differences.values() for value in outputs.values())


def test_int8_loses_at_most_a_twentieth_of_a_point_on_the_whole_test_set(exported):
    score = json.loads((exported / "int8" / "card.json").read_text())["score"]
    assert score["test_images"] == 10_000
    lost = score["int8_test_error_percent"] - score["float32_test_error_percent"]
    assert score["int8_points_lost"] == pytest.approx(lost)
    assert lost <= 0.05


def test_int8_weights_are_int8(exported):
    graph = onnx.load(str(exported / "int8" / "encoder.onnx")).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    layers = [node for node in graph.node if node.op_type in ("Conv", "MatMul")]
    assert Counter(node.op_type for node in layers) == {"Conv": 5, "MatMul": 1}
    for layer in layers:
        weight = makers[layer.input[1]]
        assert weight.op_type == "DequantizeLinear"
        assert constants[weight.input[0]].data_type == onnx.TensorProto.INT8
    (votes,) = (node for node in layers if node.op_type == "MatMul")
    assert np.prod(constants[makers[votes.input[1]].input[0]].dims) == 10 * 16 * 8 * 16
    large = [
        t.name for t in graph.initializer if np.prod(t.dims) > 512 and t.data_type != onnx.TensorProto.INT8
    ]
    assert not large


def test_int8_is_computed_in_int8(exported, tmp_path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "run.onnx")
    onnxruntime.InferenceSession(str(exported / "int8" / "encoder.onnx"), options)
    run = Counter(node.op_type for node in onnx.load(str(tmp_path / "run.onnx")).graph.node)
    assert run["QLinearConv"] == 5
    assert run["MatMulIntegerToFloat"] == 1
    assert run["Conv"] == run["MatMul"] == 0


@pytest.mark.parametrize("file", ["onnx/encoder", "onnx/model", "int8/encoder"])
def test_predicting_from_a_file_does_not_import_torch_and_agrees_with_it(exported, file):
    code = (
        "import sys\nfrom capsnet.cli import main\nmain(sys.argv[1:])\n"
        "assert 'torch' not in sys.modules and 'onnx' not in sys.modules"
    )
    words = ["predict", str(exported / f"{file}.onnx"), str(SEVEN), "--json"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (got,) = json.loads(done.stdout)
    (expected,) = predict_files("efficient_capsnet.mnist", [SEVEN])
    assert got["class"] == expected["class"] == "7"
    assert got["likely"] is True
    tolerance = 1e-4 if file.startswith("onnx") else 0.05
    assert got["scores"] == pytest.approx(expected["scores"], abs=tolerance)


def test_an_export_s_folder_predicts_as_its_encoder_does(exported: Path) -> None:
    picture = [Path("docs/seven.png")]
    folder = exported / "int8"
    assert predict_files(str(folder), picture) == predict_files(str(folder / "encoder.onnx"), picture)
