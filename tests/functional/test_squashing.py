import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from capsnet.errors import CapsNetError
from capsnet.functional.squashing import SQUASHES, get_squash, length, squash, squash_sabour

vectors = st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=20)


def test_squash_equals_eq_2_written_out():
    s = torch.randn(5, 7, dtype=torch.float64)
    for got, vector in zip(squash(s), s.tolist(), strict=True):
        norm = math.sqrt(sum(x * x for x in vector))
        expected = [(1 - math.exp(-norm)) * x / norm for x in vector]
        assert torch.allclose(got, torch.tensor(expected, dtype=torch.float64), atol=1e-14, rtol=0)


def test_squash_sabour_equals_eq_1_written_out():
    s = torch.randn(5, 7, dtype=torch.float64)
    for got, vector in zip(squash_sabour(s), s.tolist(), strict=True):
        norm = math.sqrt(sum(x * x for x in vector))
        expected = [norm**2 / (1 + norm**2) * x / norm for x in vector]
        assert torch.allclose(got, torch.tensor(expected, dtype=torch.float64), atol=1e-14, rtol=0)


@pytest.mark.parametrize("name", sorted(SQUASHES))
@given(vector=vectors)
def test_squash_keeps_the_direction_and_brings_the_length_to_at_most_one(name, vector):
    s = torch.tensor(vector, dtype=torch.float64)
    squashed = get_squash(name)(s)
    assert squashed.norm() <= 1 + 1e-12
    assert torch.allclose(squashed * s.norm(), s * squashed.norm(), atol=1e-8, rtol=1e-9)


@pytest.mark.parametrize("name", sorted(SQUASHES))
@given(vector=vectors, factor=st.floats(1.01, 10))
def test_longer_vectors_stay_longer(name, vector, factor):
    s = torch.tensor(vector, dtype=torch.float64)
    function = get_squash(name)
    assert function(factor * s).norm() >= function(s).norm() - 1e-12


@pytest.mark.parametrize("name", sorted(SQUASHES))
def test_squash_gradients(name):
    s = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    assert gradcheck(get_squash(name), s)


@pytest.mark.parametrize("name", sorted(SQUASHES))
@pytest.mark.parametrize("value", [0.0, 1e-30, 1e-7, 1e-6, 1e4])
def test_squash_is_finite_with_finite_gradients_at_extremes(name, value):
    s = torch.full((3, 8), value, requires_grad=True)
    squashed = get_squash(name)(s)
    squashed.sum().backward()
    assert squashed.isfinite().all()
    assert s.grad is not None
    assert s.grad.isfinite().all()


@pytest.mark.parametrize("name", sorted(SQUASHES))
def test_squash_of_zero_is_zero(name):
    assert torch.equal(get_squash(name)(torch.zeros(2, 8)), torch.zeros(2, 8))


def test_jacobian_of_squash_at_zero_is_the_identity():
    jacobian = torch.autograd.functional.jacobian(squash, torch.zeros(4))
    assert torch.equal(jacobian, torch.eye(4))


def test_length_equals_the_root_of_the_sum_of_squares_with_epsilon():
    assert length(torch.tensor([[3.0, 4.0]])).item() == pytest.approx(5.0)
    assert length(torch.zeros(1, 16)).item() == pytest.approx(math.sqrt(1e-7))


def test_length_gradients_are_finite_at_zero():
    poses = torch.zeros(2, 4, requires_grad=True)
    length(poses).sum().backward()
    assert torch.equal(poses.grad, torch.zeros(2, 4))


def test_unknown_squash_names_the_nearest():
    with pytest.raises(CapsNetError, match=r"There is no squash 'sabuor'; did you mean 'sabour'\?"):
        get_squash("sabuor")


@pytest.mark.parametrize("name", sorted(SQUASHES))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_long_vectors_keep_their_length_in_half_precision(name, dtype):
    s = torch.tensor([[300.0, -400.0], [30_000.0, 40_000.0]], dtype=dtype)
    squashed = get_squash(name)(s)
    assert squashed.dtype == dtype
    torch.testing.assert_close(
        squashed.double(), torch.tensor([[0.6, -0.8], [0.6, 0.8]]).double(), rtol=1e-2, atol=0
    )
    assert length(s)[0].item() == pytest.approx(500, rel=1e-2)
