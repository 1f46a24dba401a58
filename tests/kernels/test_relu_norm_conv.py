"""ReLU, BatchNorm and a convolution in one function are what they are one after the other."""

import copy

import pytest
import torch
from torch import Tensor, nn

from capsnet import create_model
from capsnet.kernels import accelerate, plain
from capsnet.kernels import relu_norm as compiled
from capsnet.kernels.relu_norm_conv import can_fold, relu_norm_conv

PRECISION = {torch.float32: 1e-5, torch.bfloat16: 2**-6}

pytestmark = pytest.mark.skipif(compiled._load(torch.float32) is None, reason="no C compiler")


def maps_norm_and_conv(
    shape: tuple[int, ...], stride: int, dtype: torch.dtype, outputs: int = 6
) -> tuple[Tensor, nn.BatchNorm2d, nn.Conv2d]:
    """Maps with channels last, off zero in the mean, and layers with parameters of their own."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(shape[1], eps=1e-3, momentum=0.01)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    conv = nn.Conv2d(shape[1], outputs, 3, stride).to(memory_format=torch.channels_last)
    maps = (torch.randn(shape) * 3 + 1).to(dtype).contiguous(memory_format=torch.channels_last)
    return maps, norm, conv


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("shape", [(64, 32, 12, 12), (5, 7, 6, 5), (1, 64, 9, 9)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("outputs", [6, 64])
@pytest.mark.parametrize("threads", [1, 2])
def test_equals_float64(
    dtype: torch.dtype, shape: tuple[int, ...], stride: int, outputs: int, threads: int
) -> None:
    maps, norm, conv = maps_norm_and_conv(shape, stride, dtype, outputs)
    given, their_norm, their_conv = maps.double().requires_grad_(), *copy.deepcopy((norm, conv))
    theirs = [given, *their_norm.double().parameters(), *their_conv.double().parameters()]
    expected = their_conv(their_norm(given.relu()))
    gradient = torch.randn(expected.shape).to(dtype)
    expected = [expected, *torch.autograd.grad(expected, theirs, gradient.double())]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        leaf = maps.requires_grad_()
        maps = leaf * 1  # what is overwritten is no leaf
        assert can_fold(maps, norm, conv)
        result = relu_norm_conv(maps, norm, conv)
        ours = [leaf, *norm.parameters(), *conv.parameters()]
        got = [result, *torch.autograd.grad(result, ours, gradient)]
    finally:
        torch.set_num_threads(before)
    assert result.dtype == dtype
    for a, b in zip(got, expected, strict=True):
        assert (a.double() - b).norm() <= PRECISION[dtype] * b.norm()
    assert norm.num_batches_tracked == 1
    for a, b in zip(norm.buffers(), their_norm.buffers(), strict=True):
        torch.testing.assert_close(a.to(b.dtype), b, rtol=1e-5, atol=1e-6)


def test_the_maps_give_way_to_their_relu() -> None:
    maps, norm, conv = maps_norm_and_conv((4, 3, 5, 5), 1, torch.float32)
    expected = maps.relu()
    with torch.no_grad():
        relu_norm_conv(maps, norm, conv)
    assert torch.equal(maps, expected)


def test_a_nan_is_not_hidden() -> None:
    maps, norm, conv = maps_norm_and_conv((4, 3, 5, 5), 1, torch.float32)
    maps[0, 1, 2, 3] = float("nan")
    with torch.no_grad():
        assert relu_norm_conv(maps, norm, conv).isnan().all()


def test_convolutions_that_cannot_take_a_shift_are_left_alone() -> None:
    maps, norm, conv = maps_norm_and_conv((4, 4, 5, 5), 1, torch.float32)
    assert can_fold(maps, norm, conv)
    assert not can_fold(maps, norm, nn.Conv2d(4, 6, 3, padding=1))
    assert not can_fold(maps, norm, nn.Conv2d(4, 6, 3, dilation=2))
    assert not can_fold(maps, norm, nn.Conv2d(4, 6, 3, groups=2))
    assert not can_fold(maps, norm, nn.Conv2d(4, 6, 3, bias=False))
    assert not can_fold(maps, copy.deepcopy(norm).eval(), conv)


def test_blocks_run_together_are_the_blocks_one_by_one() -> None:
    torch.manual_seed(0)
    model = accelerate(create_model("efficient_capsnet").to(memory_format=torch.channels_last))
    blocks = model.encoder.blocks
    # So few values that none is near enough to zero for rounding to decide its sign.
    single, images = plain(copy.deepcopy(blocks)), torch.rand(2, 1, 28, 28)
    expected = images
    for block in single:
        expected = block(expected)
    result = blocks(images)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    gradient = torch.randn(result.shape)
    for ours, theirs in zip(
        torch.autograd.grad(result, list(blocks.parameters()), gradient),
        torch.autograd.grad(expected, list(single.parameters()), gradient),
        strict=True,
    ):
        assert (ours - theirs).norm() <= 1e-4 * theirs.norm()
