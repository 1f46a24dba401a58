"""int8 by static quantisation of the weights of convolutions, votes and dense layers, and of their inputs.

ONNX Runtime's quantiser, with these choices:

- A weight's scale is its output channel's own; the vote matrices, a stack of matrices, share one, since ONNX Runtime has no
  kernel for a stack with more.
- Weights use 7 of the 8 bits: two products of full ones overflow the 16-bit sums of x86 processors without VNNI, so that
  the accuracy measured here would not be the accuracy there. On MNIST it costs nothing that can be measured.
- A ReLU is quantised with the layer before it, so that no level is spent on values that it is about to cut.
- Routing stays in float32: it is few operations, and squash and softmax are not for 256 levels. So do the outputs of matrix
  products, which go to the routing, to a softmax or to a sigmoid.

Ranges are the least and the greatest value seen with calibration images, which are training images.

Letters: N images, C x H x W image.
"""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from jaxtyping import Float
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from capsnet.export.graph import Graph, drop_unused_constants, strip
from capsnet.export.names import IMAGES

WEIGHTED = ("Conv", "ConvTranspose", "MatMul", "Gemm")
BATCH = 64


class ImageReader(CalibrationDataReader):
    """Feeds the quantiser one batch at a time."""

    def __init__(self, images: Float[np.ndarray, "n c h w"]) -> None:
        self.batches = iter([images[n : n + BATCH] for n in range(0, len(images), BATCH)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        batch = next(self.batches, None)
        return None if batch is None else {IMAGES: batch}


def quantise(model: onnx.ModelProto, images: Float[np.ndarray, "n c h w"]) -> onnx.ModelProto:
    """Return the graph with int8 weights, calibrated on `images` as the model takes them."""
    graph = Graph(model)
    layers = [n for n in graph.proto.node if n.op_type in WEIGHTED and n.input[1] in graph.constants]
    activations = [
        user
        for layer in layers
        if (user := graph.only_user(layer.output[0])) is not None and user.op_type == "Relu"
    ]
    stacks = {
        n.input[1] for n in layers if n.op_type == "MatMul" and len(graph.constants[n.input[1]].dims) > 2
    }
    with tempfile.TemporaryDirectory() as folder, quietly():
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, str(source))
        quantize_static(
            source,
            target,
            ImageReader(images),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=[*WEIGHTED, "Relu"],
            nodes_to_quantize=[node.name for node in (*layers, *activations)],
            calibrate_method=CalibrationMethod.MinMax,
            extra_options={
                "TensorQuantOverrides": {name: [{"symmetric": True}] for name in sorted(stacks)},
                "OpTypesToExcludeOutputQuantization": ["MatMul", "Gemm"],
            },
        )
        quantised = onnx.load(str(target))
    strip(quantised)
    drop_unused_constants(quantised)
    return quantised


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the quantiser's advice to run a preparation that fails on graphs of torch's exporter."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
