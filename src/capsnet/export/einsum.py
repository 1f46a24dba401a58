"""Einsums with a constant, such as the votes of eq. 3, as matrix products: the form that can be computed in int8.

An einsum of two tensors is a batched matrix product up to the order of axes. Letters in both inputs and in the output count
the products ("i" in bik,jikd->bjid), letters in both inputs only are summed over ("k"), the rest are rows and columns. Only
the moving input has an axis of unknown size, its batch, which is among the rows.
"""

import numpy as np
import onnx
from onnx import helper

from capsnet.export.graph import Graph, attribute


def einsums_to_products(model: onnx.ModelProto) -> int:
    """Rewrite every einsum of a tensor with a constant; return how many there were."""
    rewritten = 0
    while (output := _next_einsum(Graph(model))) is not None:
        graph = Graph(model)
        graph.replace_nodes(graph.makers[output], _product(graph, graph.makers[output]))
        rewritten += 1
    return rewritten


def _next_einsum(graph: Graph) -> str | None:
    for node in graph.proto.node:
        if node.op_type == "Einsum" and _equation(graph, node) is not None:
            return node.output[0]
    return None


def _equation(graph: Graph, node: onnx.NodeProto) -> tuple[str, str, str, int] | None:
    """Letters of the moving input, of the constant and of the output, and which input is the constant; None if unfit."""
    text = attribute(node, "equation", b"").decode().replace(" ", "")
    inputs, arrow, result = text.partition("->")
    letters = inputs.split(",")
    constant = [n for n, name in enumerate(node.input) if name in graph.constants]
    if len(letters) != 2 or not arrow or len(constant) != 1 or "." in text:
        return None
    fixed, moving = letters[constant[0]], letters[1 - constant[0]]
    repeated = any(len(set(part)) != len(part) for part in (fixed, moving, result))
    summed_alone = any(c not in result for c in set(fixed) ^ set(moving))
    known = {*fixed, *_sizes(graph, node.input[1 - constant[0]], moving)}
    # The batch must be free to be any size, and thus one of the rows.
    if repeated or summed_alone or moving[0] in fixed or not known.issuperset(moving[1:]):
        return None
    return moving, fixed, result, constant[0]


def _product(graph: Graph, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    equation = _equation(graph, node)
    assert equation is not None
    moving, fixed, result, which = equation
    weight = graph.array(node.input[which])
    size = {
        **_sizes(graph, node.input[1 - which], moving),
        **dict(zip(fixed, weight.shape, strict=True)),
    }
    batch = [c for c in fixed if c in moving and c in result]
    summed = [c for c in fixed if c in moving and c not in result]
    rows = [c for c in moving if c not in fixed]
    columns = [c for c in fixed if c not in moving]

    def count(letters: list[str]) -> int:
        return int(np.prod([size[c] for c in letters], dtype=int))

    weight = weight.transpose([fixed.index(c) for c in (*batch, *summed, *columns)])
    stem = node.output[0]
    matrices = graph.add_constant(
        f"{node.input[which]}_matrices",
        weight.reshape(*_each(count(batch), batch), count(summed), count(columns)),
    )
    new: list[onnx.NodeProto] = []

    def reshape(name: str, shape: list[int], made: str) -> str:
        constant = graph.add_constant(f"{made}_shape", np.array(shape, dtype=np.int64))
        new.append(helper.make_node("Reshape", [name, constant], [made]))
        return made

    def transpose(name: str, before: list[str], after: list[str], made: str) -> str:
        order = [before.index(c) for c in after]
        if order == sorted(order):
            return name
        new.append(helper.make_node("Transpose", [name], [made], perm=order))
        return made

    flowing = transpose(node.input[1 - which], list(moving), [*batch, *rows, *summed], f"{stem}_ordered")
    flowing = reshape(flowing, [*_each(count(batch), batch), -1, count(summed)], f"{stem}_rows")
    new.append(helper.make_node("MatMul", [flowing, matrices], [f"{stem}_product"]))
    product_letters = [*batch, *rows, *columns]
    sizes = [-1 if c == moving[0] else size[c] for c in product_letters]
    flowing = reshape(f"{stem}_product", sizes, f"{stem}_split")
    final = transpose(flowing, product_letters, list(result), stem)
    new[-1].output[0] = stem
    assert final in (stem, flowing)
    return new


def _each(count: int, letters: list[str]) -> list[int]:
    """Leave out the axis that counts the products when there is only one."""
    return [count] if letters else []


def _sizes(graph: Graph, name: str, letters: str) -> dict[str, int]:
    """The known sizes of a moving tensor's axes."""
    for value in (*graph.proto.value_info, *graph.proto.input):
        if value.name == name:
            dims = value.type.tensor_type.shape.dim
            return {c: d.dim_value for c, d in zip(letters, dims, strict=True) if d.HasField("dim_value")}
    return {}
