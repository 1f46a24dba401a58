"""A capsule head: the second half of Efficient-CapsNet, on anyone's feature maps."""

import pytest
import torch
from torch import nn

from capsnet.errors import CapsNetError
from capsnet.layers import CapsuleHead, DenseCapsules, PrimaryCapsules


def test_it_is_primary_capsules_and_then_dense_ones():
    head = CapsuleHead(16, (5, 4), 3, primary_size=4, class_size=6, capsule_layers=((7, 5),))
    assert isinstance(head.primary, PrimaryCapsules)
    middle, last = head.capsules
    assert isinstance(middle, DenseCapsules)
    features = torch.randn(2, 16, 5, 4)
    below = middle(head.primary(features))
    expected = last(below.poses, below.activations)
    result = head(features)
    assert all(torch.equal(a, b) for a, b in zip(result, expected, strict=True))
    assert result.poses.shape == (2, 3, 6)
    assert result.activations.shape == (2, 3)
    assert result.coupling.shape == (2, 3, 7)


def test_a_smaller_kernel_gives_capsules_at_each_place():
    head = CapsuleHead(16, (6, 5), 3, kernel=3, stride=2)
    assert head(torch.randn(2, 16, 6, 5)).coupling.shape == (2, 3, 2 * 2 * 2)


def test_it_makes_a_network_of_any_convolutions():
    network = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), CapsuleHead(8, (7, 7), 4))
    result = network(torch.rand(2, 3, 16, 16))
    result.activations.sum().backward()
    assert all(p.grad is not None and p.grad.count_nonzero() > 0 for p in network.parameters())


@pytest.mark.parametrize("routing", ["dynamic", "self_attention", "uniform"])
def test_it_takes_any_routing(routing):
    head = CapsuleHead(16, (2, 2), 3, routing=routing)
    assert head(torch.randn(2, 16, 2, 2)).activations.shape == (2, 3)


def test_channels_that_make_no_capsules_are_refused():
    with pytest.raises(CapsNetError, match="12 channels do not divide into capsules of 8"):
        CapsuleHead(12, (2, 2), 3)
