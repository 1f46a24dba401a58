"""Every registered model exports with a free batch and gives torch's numbers; registering one tests it."""

import pytest

import capsnet

# The others are large or take long to trace: `make test-all` runs them. efficient_capsnet is what the other files test.
QUICK = ("cnn_small",)

PROGRAM = """
import sys
import onnx
import tempfile
import torch
from functools import cache
from pathlib import Path
import capsnet
from capsnet.data.base import DataSet, Split
from capsnet.data.preprocessing import Preprocessing
from capsnet.export import images, write
from capsnet.export.runtime import OnnxModel

torch.set_num_threads(1)
torch.manual_seed(0)
write.build_graph = cache(write.build_graph)
images.PARITY_IMAGES, images.CALIBRATION_IMAGES = 8, 16
model = capsnet.create_model(sys.argv[1])
shape, classes = model.image_shape, model.architecture.num_classes
split = Split(torch.randint(0, 256, (16, *shape)).to(torch.uint8), torch.arange(16) % classes)
data = DataSet("noise", split, split, tuple(map(str, range(classes))), Preprocessing(), shape)
if sys.argv[1].startswith("efficient"):
    # Untrained capsules are short, and short ones differ little whatever is wrong with them.
    model.eval()
    with torch.no_grad():
        while (middle := model(split.images / 255).scores.median()) < 0.2:
            model.encoder.capsules[-1].weight *= 2
    assert 0.1 < middle < 0.9, middle
with tempfile.TemporaryDirectory() as folder:
    for format in ("onnx", "int8"):
        card = write.export_model(model, Path(folder) / format, format=format, dataset=data)
        expected = {"encoder", "model"} | ({"decoder"} if model.decoder is not None else set())
        assert {name.removesuffix(".onnx") for name in card["export"]["files"]} == expected
        for part in expected:
            OnnxModel(Path(folder) / format / f"{part}.onnx", threads=1)
    small, large = ((Path(folder) / f / "encoder.onnx").stat().st_size for f in ("int8", "onnx"))
    # Convolutional capsules keep tables of which child each position sees.
    assert small < 0.6 * large, (small, large)
    graph = onnx.load(f"{folder}/int8/encoder.onnx").graph
    floats = {t.name for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
    for node in graph.node:
        # Nothing with weights is left in float32.
        assert node.op_type not in ("Conv", "MatMul", "Gemm", "Einsum") or floats.isdisjoint(node.input), node
"""


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in capsnet.list_models()],
)
def test_exports_in_both_formats(name, run_without_shape_checks):
    run_without_shape_checks(PROGRAM, name)


MIXTURES = """
import capsnet
from capsnet.export.trace import trace

small = {"matrix_capsnet": {"types": (4, 2, 2, 2)}, "efficient_capsnet": {"routing": "variational"}}
for name, options in small.items():
    graph = trace(capsnet.create_model(name, (1, 20, 20), 3, decoder=False, **options)).graph
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param, name
"""


def test_mixture_routings_export_with_a_free_batch(run_without_shape_checks):
    run_without_shape_checks(MIXTURES)


NEWER = """
import numpy as np
import onnxruntime
import torch
import capsnet
from capsnet.export.trace import trace

torch.manual_seed(0)
for routing in ("self_routing", "heinsen", "orthogonal_sparse"):
    model = capsnet.create_model("efficient_capsnet", (1, 20, 20), 3, decoder=False, routing=routing).eval()
    with torch.no_grad():
        model.encoder.capsules[0].weight *= 30
    session = onnxruntime.InferenceSession(trace(model, coupling=True).SerializeToString())
    images = torch.rand(5, 1, 20, 20)
    with torch.no_grad():
        output = model(images, coupling=True)
    found = dict(zip((o.name for o in session.get_outputs()), session.run(None, {"images": images.numpy()})))
    for name in ("scores", "poses", "coupling"):
        np.testing.assert_allclose(found[name], getattr(output, name).numpy(), atol=2e-5, err_msg=routing)
    if routing == "orthogonal_sparse":
        assert (found["coupling"] == 0).any()
"""


def test_routings_that_read_input_poses_or_sort_export_with_a_free_batch(run_without_shape_checks):
    run_without_shape_checks(NEWER)


VIEWS = """
import capsnet
from capsnet.export.trace import trace

members = [("efficient_capsnet", {"deskew": True, "ink_width": 9})]
model = capsnet.create_model("mixture", (1, 20, 20), 3, decoder=False, members=members, views="turn")
assert trace(model).graph.input[0].type.tensor_type.shape.dim[0].dim_param
"""


@pytest.mark.slow
def test_mixtures_with_views_export_with_a_free_batch(run_without_shape_checks):
    run_without_shape_checks(VIEWS)
