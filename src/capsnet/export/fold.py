"""Batch normalisation folded into the convolutions on its two sides, which costs nothing to run and quantises well.

The blocks of eq. 1 normalise last: convolution, ReLU, a x + s. For each channel, a relu(u) = sign(a) relu(|a| u), so |a|
goes into the convolution before, where it is a matter of an output channel and thus of that channel's own int8 scale, and
sign(a) and the shift s go into the convolution after. That is exact where the latter pads nothing: a border of zeros
would have to become a border of -s/a. LeakyReLU lets positive factors through as well.
"""

import numpy as np
import onnx

from capsnet.export.graph import Graph, attribute

ACTIVATIONS = ("Relu", "LeakyRelu")


def fold_batch_norms(model: onnx.ModelProto) -> int:
    """Fold every batch normalisation between two convolutions; return how many there were."""
    folded = 0
    while (norm := _next_norm(Graph(model))) is not None:
        _fold(Graph(model), norm)
        folded += 1
    return folded


def _next_norm(graph: Graph) -> str | None:
    """Return the output name of a batch normalisation that can be folded."""
    for node in graph.proto.node:
        if node.op_type == "BatchNormalization" and _neighbours(graph, node) is not None:
            return node.output[0]
    return None


def _neighbours(
    graph: Graph, norm: onnx.NodeProto
) -> tuple[onnx.NodeProto, onnx.NodeProto, onnx.NodeProto] | None:
    """Return the convolution and the activation before, and the convolution after, if nothing else reads in between."""
    activation = graph.makers.get(norm.input[0])
    if activation is None or activation.op_type not in ACTIVATIONS:
        return None
    before = graph.makers.get(activation.input[0])
    after = graph.only_user(norm.output[0])
    if before is None or before.op_type != "Conv" or after is None or after.op_type != "Conv":
        return None
    private = graph.only_user(activation.output[0]) and graph.only_user(before.output[0])
    constant = all(conv.input[1] in graph.constants for conv in (before, after))
    padded = any(attribute(after, "pads", [0])) or attribute(after, "auto_pad", b"NOTSET") != b"NOTSET"
    return (before, activation, after) if private and constant and not padded else None


def _fold(graph: Graph, output: str) -> None:
    norm = graph.makers[output]
    found = _neighbours(graph, norm)
    assert found is not None
    before, activation, after = found
    gamma, beta, mean, variance = (graph.array(name).astype(np.float64) for name in norm.input[1:])
    factor = gamma / np.sqrt(variance + attribute(norm, "epsilon", 1e-5))
    shift = beta - mean * factor

    weight, bias = _weights(graph, before)
    scale = np.abs(factor)
    _set_weights(graph, before, weight * scale[:, None, None, None], bias * scale)

    weight, bias = _weights(graph, after)
    # The weight's second axis counts channels within a group: give each filter its own group's signs and shifts.
    groups = attribute(after, "group", 1)
    filters_per_group = len(weight) // groups
    signs = np.sign(factor).reshape(groups, -1).repeat(filters_per_group, axis=0)
    shifts = shift.reshape(groups, -1).repeat(filters_per_group, axis=0)
    bias = bias + np.einsum("oikl,oi->o", weight, shifts)
    _set_weights(graph, after, weight * signs[:, :, None, None], bias)

    after.input[0] = activation.output[0]
    graph.replace_nodes(norm, [])


def _weights(graph: Graph, conv: onnx.NodeProto) -> tuple[np.ndarray, np.ndarray]:
    weight = graph.array(conv.input[1]).astype(np.float64)
    has_bias = len(conv.input) > 2 and conv.input[2]
    bias = graph.array(conv.input[2]).astype(np.float64) if has_bias else np.zeros(len(weight))
    return weight, bias


def _set_weights(graph: Graph, conv: onnx.NodeProto, weight: np.ndarray, bias: np.ndarray) -> None:
    # Always new constants: equal ones may be shared between layers.
    names = [
        graph.add_constant(f"{conv.input[1]}_folded", weight.astype(np.float32)),
        graph.add_constant(f"{conv.input[1]}_folded_bias", bias.astype(np.float32)),
    ]
    del conv.input[1:]
    conv.input.extend(names)
