"""ReLU and BatchNorm in one function are what they are one after the other."""

import copy

import pytest
import torch
from torch import Tensor, nn

from capsnet import create_model
from capsnet.kernels import accelerate, plain
from capsnet.kernels import relu_norm as module
from capsnet.kernels.relu_norm import can_fuse, relu_norm

PRECISION = {torch.float32: 2e-6, torch.bfloat16: 2**-8}

pytestmark = pytest.mark.skipif(module._load(torch.float32) is None, reason="no C compiler")


def maps_and_norm(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, nn.BatchNorm2d, Tensor]:
    """Maps with channels last, a norm with parameters of its own, and a gradient."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(shape[1], eps=1e-3, momentum=0.01)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    maps, gradient = (
        torch.randn(shape).mul(3).to(dtype).contiguous(memory_format=torch.channels_last) for _ in range(2)
    )
    return maps.requires_grad_(), norm, gradient


def exact(maps: Tensor, norm: nn.BatchNorm2d, gradient: Tensor) -> tuple[list[Tensor], nn.BatchNorm2d]:
    """By PyTorch in float64."""
    norm = copy.deepcopy(norm).double()
    given = maps.detach().double().requires_grad_()
    result = norm(given.relu())
    gradients = torch.autograd.grad(result, [given, norm.weight, norm.bias], gradient.double())
    return [result, *gradients], norm


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("shape", [(64, 32, 24, 24), (5, 7, 3, 2), (1, 64, 9, 9), (2, 3, 2, 2)])
@pytest.mark.parametrize("momentum", [0.01, None])
@pytest.mark.parametrize("threads", [1, 2])
def test_equals_float64(
    dtype: torch.dtype, shape: tuple[int, ...], momentum: float | None, threads: int
) -> None:
    maps, norm, gradient = maps_and_norm(shape, dtype)
    norm.momentum = momentum
    expected, expected_norm = exact(maps, norm, gradient)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert can_fuse(maps, norm)
        result = relu_norm(maps, norm)
        got = [result, *torch.autograd.grad(result, [maps, norm.weight, norm.bias], gradient)]
    finally:
        torch.set_num_threads(before)
    assert result.dtype == dtype
    assert result.is_contiguous(memory_format=torch.channels_last)
    for ours, theirs in zip(got, expected, strict=True):
        error = (ours.double() - theirs).abs().max() / theirs.abs().max().clamp_min(1e-3)
        assert error < 3 * PRECISION[dtype]
    assert norm.num_batches_tracked == 1
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(
            getattr(norm, name).double(), getattr(expected_norm, name), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("ratio", [10, 1000])
def test_the_variance_of_values_far_from_zero_does_not_cancel(ratio: int) -> None:
    maps, norm, gradient = maps_and_norm((64, 32, 24, 24), torch.float32)
    norm.momentum = 1.0
    with torch.no_grad():
        maps.add_(3 * ratio)  # their deviation is 3
        maps[0, :, 0, 0] = 0
    expected, expected_norm = exact(maps, norm, gradient)
    result = relu_norm(maps, norm)
    got = [result, *torch.autograd.grad(result, [maps, norm.weight, norm.bias], gradient)]
    torch.testing.assert_close(norm.running_var.double(), expected_norm.running_var, rtol=3e-6, atol=0)
    for ours, theirs in zip(got, expected, strict=True):
        assert (ours.double() - theirs).norm() <= 1e-6 * ratio * theirs.norm()


def test_a_nan_is_not_hidden() -> None:
    maps, norm, _ = maps_and_norm((4, 3, 5, 5), torch.float32)
    with torch.no_grad():
        maps[0, 1, 2, 3] = float("nan")
        result = relu_norm(maps, norm)
    assert result[:, 1].isnan().all()
    assert not result[:, [0, 2]].isnan().any()


def test_what_pytorch_must_do_itself_is_left_to_it() -> None:
    maps, norm, _ = maps_and_norm((4, 3, 5, 5), torch.float32)
    assert can_fuse(maps, norm)
    assert not can_fuse(maps.contiguous(), norm)
    assert not can_fuse(maps.double(), norm)
    assert not can_fuse(maps.to("meta"), norm)
    assert not can_fuse(maps, copy.deepcopy(norm).eval())
    assert not can_fuse(maps, nn.BatchNorm2d(3, affine=False))
    assert not can_fuse(maps, nn.BatchNorm2d(3, track_running_stats=False))


def test_the_networks_gradients_are_float64s_to_six_digits() -> None:
    """PyTorch's own, with channels last, have two or three: its sums over places are float32's."""
    torch.manual_seed(0)
    model = accelerate(create_model("efficient_capsnet").to(memory_format=torch.channels_last))
    double = plain(copy.deepcopy(model).double())
    # So few values that none is near enough to zero for rounding to decide its sign.
    images = torch.rand(2, 1, 28, 28)
    model(images).poses.square().sum().backward()
    double(images.double()).poses.square().sum().backward()
    for (name, ours), theirs in zip(
        model.encoder.named_parameters(), double.encoder.parameters(), strict=True
    ):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert (ours.grad - theirs.grad).norm() <= 1e-5 * theirs.grad.norm(), name


def test_without_a_compiler_pytorch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = accelerate(create_model("efficient_capsnet").to(memory_format=torch.channels_last))
    other = copy.deepcopy(model)
    images = torch.rand(8, 1, 28, 28)
    poses = model(images).poses
    monkeypatch.setattr(module, "_load", lambda dtype: None)
    torch.testing.assert_close(other(images).poses, poses, rtol=1e-3, atol=1e-5)
    for ours, theirs in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
