"""Batch and instance normalisation in any proportion."""

import pytest
import torch
from torch import nn

from capsnet.layers.mixed_norm import MixedNorm


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0, 1.7, -2.0])
def test_mixes_both_normalisations_by_each_channel_s_share(share, training):
    norm, maps = MixedNorm(3, eps=1e-3).train(training), 2 * torch.randn(4, 3, 5, 6) + 1
    by_batch, by_image = nn.BatchNorm2d(3, eps=1e-3).train(training), nn.InstanceNorm2d(3, eps=1e-3)
    nn.init.constant_(norm.share, share)
    nn.init.constant_(norm.weight, 1.5)
    nn.init.constant_(norm.bias, -0.5)
    part = min(max(share, 0), 1)
    expected = 1.5 * (part * by_batch(maps) + (1 - part) * by_image(maps)) - 0.5
    torch.testing.assert_close(norm(maps), expected)
    torch.testing.assert_close(norm.by_batch.running_var, by_batch.running_var)


def test_every_parameter_gets_a_gradient():
    norm = MixedNorm(3)
    (norm(torch.randn(4, 3, 5, 6)) ** 3).sum().backward()
    assert all(bool(p.grad.abs().min() > 0) for p in norm.parameters())


def test_evaluation_does_not_depend_on_the_batch():
    norm, maps = MixedNorm(3), torch.randn(4, 3, 5, 6)
    norm(maps)
    norm.eval()
    torch.testing.assert_close(norm(maps)[:1], norm(maps[:1]))
