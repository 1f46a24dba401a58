import math

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from capsnet.errors import CapsNetError
from capsnet.functional import squash
from capsnet.layers import PrimaryCapsules


def test_a_capsule_owns_neighbouring_channels_each_seen_by_its_own_filter():
    layer = PrimaryCapsules(16, (5, 4), size=8)
    features = torch.randn(3, 16, 5, 4)
    weight, bias = layer.depthwise.weight, layer.depthwise.bias
    numbers = torch.stack(
        [(features[:, c] * weight[c, 0]).sum(dim=(1, 2)) + bias[c] for c in range(16)], dim=1
    )
    expected = squash(torch.stack([numbers[:, :8], numbers[:, 8:]], dim=1))
    assert torch.allclose(layer(features), expected, atol=1e-6)


def test_every_position_of_a_smaller_kernel_gives_its_own_capsules():
    layer = PrimaryCapsules(16, (5, 5), size=8, stride=(2, 2))
    features = torch.randn(2, 16, 8, 6)
    capsules = layer(features)
    assert capsules.shape == (2, 2 * 1 * 2, 8)
    assert torch.allclose(capsules[:, :2], layer(features[:, :, :5, :5]), atol=1e-6)
    assert torch.allclose(capsules[:, 2:], layer(features[:, :, 2:7, :5]), atol=1e-6)


def test_the_last_row_and_column_of_a_6x6_map_are_not_seen_by_a_5x5_kernel_with_stride_2():
    layer = PrimaryCapsules(16, (5, 5), stride=(2, 2))
    features = torch.randn(1, 16, 6, 6)
    changed = features.clone()
    changed[:, :, 5, :] += 1
    changed[:, :, :, 5] += 1
    assert torch.equal(layer(features), layer(changed))


@pytest.mark.parametrize(("kernel", "bound"), [(9, 0.0240), (8, 0.0270), (5, 0.0431)])
def test_initial_values_are_uniform_with_the_authors_bound(kernel, bound):
    layer = PrimaryCapsules(128, (kernel, kernel))
    weight = layer.depthwise.weight
    assert weight.abs().max().item() == pytest.approx(bound, rel=5e-3)
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=5e-2)
    assert torch.count_nonzero(layer.depthwise.bias) == 0


def test_a_capsule_depends_on_its_own_image_only():
    layer, features = PrimaryCapsules(16, (4, 4)), torch.randn(5, 16, 4, 4)
    assert torch.allclose(layer(features)[2:3], layer(features[2:3]), atol=1e-6)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("maps", [(4, 5), (5, 6)])
def test_the_sum_of_training_and_the_convolution_of_evaluation_agree_with_their_gradients(
    maps, images, layout
):
    layer = PrimaryCapsules(16, (4, 5), stride=(2, 2)).double()
    features = torch.randn(images, 16, *maps, dtype=torch.float64)
    features = features.contiguous(memory_format=layout).requires_grad_()
    found = []
    for training in (True, False):
        capsules = layer.train(training)(features)
        wanted = (features, *layer.parameters())
        found.append((capsules, *torch.autograd.grad(capsules.square().sum(), wanted)))
    for sum_, convolution in zip(*found, strict=True):
        assert torch.allclose(sum_, convolution, rtol=1e-12, atol=1e-12)
    assert found[0][1].is_contiguous(memory_format=layout)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("norm", [nn.BatchNorm2d, nn.InstanceNorm2d])
def test_gradients_of_one_image_pass_through_a_norm_before_it(norm, layout):
    layer = nn.Sequential(norm(16, affine=True), PrimaryCapsules(16, (4, 5))).double()
    features = torch.randn(1, 16, 4, 5, dtype=torch.float64).contiguous(memory_format=layout)
    assert gradcheck(layer, features.requires_grad_())


def test_gradients():
    layer = PrimaryCapsules(4, (2, 2), size=2).double()
    assert gradcheck(layer, torch.randn(2, 4, 2, 2, dtype=torch.float64, requires_grad=True))


def test_a_map_smaller_than_the_filters_is_refused():
    with pytest.raises(RuntimeError, match="Kernel size can't be greater"):
        PrimaryCapsules(16, (5, 5))(torch.randn(1, 16, 4, 5))


def test_channels_that_do_not_divide_are_refused():
    with pytest.raises(CapsNetError, match="30 channels do not divide into capsules of 8 elements"):
        PrimaryCapsules(30, (3, 3))
