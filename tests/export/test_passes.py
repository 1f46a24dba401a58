"""The changes to a graph leave what it computes as it was."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from capsnet.export.einsum import einsums_to_products
from capsnet.export.fold import fold_batch_norms
from capsnet.export.graph import drop_unused_constants, fold_constant_reshapes

RANDOM = np.random.default_rng(0)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def make_model(nodes, constants, inputs, output):
    def value(name, rank):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch"] + [None] * (rank - 1))

    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [value(*output)],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def run(model, **inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, inputs)[0]


def operations(model):
    return [node.op_type for node in model.graph.node]


def norm_model(activation="Relu", groups=1, pads=(0, 0, 0, 0), bias=True):
    gamma = numbers(6)
    gamma[:2] = 0.0, -1.0
    constants = {
        "w1": numbers(6, 2, 3, 3),
        "w2": numbers(6, 6 // groups, 3, 3),
        "b": numbers(6),
        "gamma": gamma,
        "beta": numbers(6),
        "mean": numbers(6),
        "variance": np.abs(numbers(6)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", *(["b"] if bias else [])], ["c1"], kernel_shape=[3, 3]),
        helper.make_node(activation, ["c1"], ["a"]),
        helper.make_node(
            "BatchNormalization", ["a", "gamma", "beta", "mean", "variance"], ["n"], epsilon=1e-3
        ),
        helper.make_node("Conv", ["n", "w2", *(["b"] if bias else [])], ["y"], group=groups, pads=pads),
    ]
    return make_model(nodes, constants, {"x": ["batch", 2, 9, 9]}, ("y", 4))


@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu"])
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("bias", [True, False])
def test_folding_keeps_the_values_with_negative_and_zero_scales_too(activation, groups, bias):
    model = norm_model(activation, groups, bias=bias)
    x = numbers(3, 2, 9, 9)
    before = run(model, x=x)
    assert fold_batch_norms(model) == 1
    assert operations(model) == ["Conv", activation, "Conv"]
    np.testing.assert_allclose(run(model, x=x), before, atol=1e-4)


def test_a_norm_before_a_padded_convolution_is_left_alone():
    model = norm_model(pads=(1, 1, 1, 1))
    assert fold_batch_norms(model) == 0
    assert "BatchNormalization" in operations(model)


def test_a_norm_that_others_read_too_is_left_alone():
    model = norm_model()
    model.graph.output.append(helper.make_tensor_value_info("n", TensorProto.FLOAT, None))
    assert fold_batch_norms(model) == 0


def einsum_model(equation, shapes, constant):
    result = equation.split("->")[1]
    names = ["x", "w"] if constant == 1 else ["w", "x"]
    moving = [None if n == 0 else size for n, size in enumerate(shapes[1 - constant])]
    nodes = [helper.make_node("Einsum", names, ["y"], equation=equation)]
    return make_model(nodes, {"w": numbers(*shapes[constant])}, {"x": moving}, ("y", len(result)))


@pytest.mark.parametrize(
    ("equation", "shapes", "constant"),
    [
        ("bik,jikd->bjid", [(3, 4, 5), (2, 4, 5, 6)], 1),  # votes, eq. 3
        ("bik,jkd->bjid", [(3, 4, 5), (2, 5, 6)], 1),  # votes with shared matrices
        ("bfd,jfd->bdj", [(3, 4, 5), (2, 4, 5)], 1),
        ("jikd,bik->bjid", [(2, 4, 5, 6), (3, 4, 5)], 0),
        ("bk,kd->bd", [(3, 5), (5, 6)], 1),
        ("bik,ik->bi", [(3, 4, 5), (4, 5)], 1),
    ],
)
def test_einsums_with_a_constant_become_matrix_products_of_the_same_value(equation, shapes, constant):
    model = einsum_model(equation, shapes, constant)
    (weight,) = (numpy_helper.to_array(tensor) for tensor in model.graph.initializer)
    assert einsums_to_products(model) == 1
    assert "MatMul" in operations(model)
    assert "Einsum" not in operations(model)
    onnx.checker.check_model(model, full_check=True)
    for batch in (1, 3):
        x = numbers(batch, *shapes[1 - constant][1:])
        arrays = (x, weight) if constant == 1 else (weight, x)
        np.testing.assert_allclose(run(model, x=x), np.einsum(equation, *arrays), atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bik,bik->bi", [(3, 4, 5), (3, 4, 5)]),  # the constant has the batch's axis
        ("bik,kd->bd", [(3, 4, 5), (5, 6)]),  # i is summed alone
        ("bii,ik->bk", [(3, 4, 4), (4, 5)]),  # a diagonal
    ],
)
def test_other_einsums_are_left_alone(equation, shapes):
    assert einsums_to_products(einsum_model(equation, shapes, 1)) == 0


def test_a_reshaped_constant_is_stored_in_its_final_shape():
    nodes = [
        helper.make_node("Reshape", ["w", "shape"], ["r"]),
        helper.make_node("MatMul", ["x", "r"], ["y"]),
    ]
    constants = {"w": numbers(2, 3, 4), "shape": np.array([6, -1], dtype=np.int64)}
    model = make_model(nodes, constants, {"x": ["batch", 6]}, ("y", 2))
    x = numbers(5, 6)
    before = run(model, x=x)
    fold_constant_reshapes(model)
    drop_unused_constants(model)
    assert operations(model) == ["MatMul"]
    assert [list(tensor.dims) for tensor in model.graph.initializer] == [[6, 4]]
    assert np.array_equal(run(model, x=x), before)
