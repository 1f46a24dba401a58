"""Convolutional primary capsules: their order and their pre-activation."""

import pytest
import torch

from capsnet.errors import CapsNetError
from capsnet.functional import squash_sabour
from capsnet.layers import ConvPrimaryCapsules


def test_each_capsule_is_the_squashed_convolution_over_the_types_plus_bias():
    layer = ConvPrimaryCapsules(3, (13, 11), types=4, size=2, kernel=5)
    torch.nn.init.normal_(layer.bias)
    features = torch.randn(2, 3, 13, 11)
    capsules = layer(features)
    assert capsules.shape == (2, layer.capsules, 2) == (2, 5 * 4 * 4, 2)
    for row, column, kind in [(0, 0, 0), (4, 3, 3), (2, 1, 2)]:
        patch = features[:, :, 2 * row : 2 * row + 5, 2 * column : 2 * column + 5]
        sums = [
            (patch * layer.weight[kind * 2 + d]).sum(dim=(1, 2, 3)) / 4 + layer.bias[kind, d]
            for d in range(2)
        ]
        expected = squash_sabour(torch.stack(sums, dim=1))
        torch.testing.assert_close(capsules[:, (row * 4 + column) * 4 + kind], expected)


def test_initial_values_are_the_original_programs():
    layer = ConvPrimaryCapsules(64, (9, 9))
    assert layer.weight.abs().max() <= 0.2
    assert abs(layer.weight.std() - 0.088) < 0.002
    assert (layer.bias == 0.1).all()


def test_only_learned_values_are_stored():
    assert list(ConvPrimaryCapsules(1, (9, 9)).state_dict()) == ["weight", "bias"]


def test_maps_smaller_than_the_kernel_are_refused():
    with pytest.raises(CapsNetError, match="need maps of at least that size; got 8x20"):
        ConvPrimaryCapsules(1, (8, 20))


def test_a_layer_of_large_maps_takes_no_more_memory_than_its_values():
    layer = ConvPrimaryCapsules(1, (216, 216), types=1)
    assert list(layer.buffers()) == []
