"""Reading and changing an ONNX graph: who makes a tensor, who uses it, what a constant holds."""

from collections import defaultdict
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper


class Graph:
    """A view of a model's graph; make a new one after each change of its nodes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.proto = model.graph
        self.constants = {tensor.name: tensor for tensor in self.proto.initializer}
        self.makers = {name: node for node in self.proto.node for name in node.output}
        self.users: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in self.proto.node:
            for name in dict.fromkeys(node.input):
                self.users[name].append(node)
        self.outputs = {output.name for output in self.proto.output}

    def array(self, name: str) -> np.ndarray:
        """Return a constant's values."""
        return numpy_helper.to_array(self.constants[name])

    def only_user(self, name: str) -> onnx.NodeProto | None:
        """Return the only node that reads a tensor; None when there are several, or when it is an output."""
        users = self.users[name]
        return users[0] if len(users) == 1 and name not in self.outputs else None

    def add_constant(self, name: str, values: np.ndarray) -> str:
        """Add a constant; its name begins with `name` and is unique."""
        unique = name
        while unique in self.constants or unique in self.makers:
            unique += "_"
        tensor = numpy_helper.from_array(np.ascontiguousarray(values), unique)
        self.proto.initializer.append(tensor)
        self.constants[unique] = self.proto.initializer[-1]
        return unique

    def replace_nodes(self, node: onnx.NodeProto, new: list[onnx.NodeProto]) -> None:
        """Replace `node` by `new`; the order of nodes is the order of computation."""
        nodes: list[onnx.NodeProto] = []
        for other in self.proto.node:
            nodes.extend(new if other is node else [other])
        copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
        del self.proto.node[:]
        self.proto.node.extend(copies)


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Return an attribute's value."""
    for found in node.attribute:
        if found.name == name:
            return onnx.helper.get_attribute_value(found)
    return default


def fold_constant_reshapes(model: onnx.ModelProto) -> None:
    """Give constants their final shape: the exporter leaves a reshape after those that it repeats."""
    for name in [node.output[0] for node in model.graph.node if node.op_type == "Reshape"]:
        graph = Graph(model)
        node = graph.makers[name]
        if name in graph.outputs or any(source not in graph.constants for source in node.input):
            continue
        values, shape = (graph.array(source) for source in node.input)
        # A zero would mean "as before", which a constant's final shape never needs.
        if 0 not in shape:
            made = graph.add_constant(f"{name}_constant", values.reshape(shape))
            for user in graph.users[name]:
                user.input[:] = [made if source == name else source for source in user.input]
            graph.replace_nodes(node, [])


def drop_unused_constants(model: onnx.ModelProto) -> None:
    """Remove constants that no node reads any more."""
    used = {name for node in model.graph.node for name in node.input} | {o.name for o in model.graph.output}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    copies = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
    del model.graph.initializer[:]
    model.graph.initializer.extend(copies)


def strip(model: onnx.ModelProto) -> None:
    """Remove the exporter's notes: source paths, stack traces, module names, intermediate shapes."""
    model.doc_string = model.graph.doc_string = ""
    model.graph.name = "capsnet"
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    del model.graph.value_info[:]
    for item in (*model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output):
        item.doc_string = ""
        del item.metadata_props[:]
    for number, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{number}"
