"""Muon: kernels move along matrices with equal singular values, all else as AdamW moves it."""

import copy

import pytest
import torch
from torch import nn

from capsnet import create_model
from capsnet.train.muon import MOMENTUM, MuonAdamW, mixing_kernels, orthogonalised


@pytest.mark.parametrize("shape", [(8, 20), (20, 8), (12, 12)])
def test_singular_values_come_near_one_and_vectors_stay(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    left, _, right = torch.linalg.svd(torch.randn(shape), full_matrices=False)
    values = torch.logspace(-1.5, 0, min(shape))
    result = orthogonalised(left * values @ right)
    kept = left.T @ result @ right.T
    assert kept.diag().min() > 0.6
    assert kept.diag().max() < 1.3
    torch.testing.assert_close(kept, torch.diag(kept.diag()), rtol=0, atol=1e-4)


def test_of_nothing_there_is_nothing() -> None:
    assert torch.equal(orthogonalised(torch.zeros(3, 5)), torch.zeros(3, 5))


def test_kernels_are_those_that_mix_channels() -> None:
    model = create_model("efficient_capsnet")
    shapes = [tuple(kernel.shape) for kernel in mixing_kernels(model)]
    assert shapes == [(64, 32, 3, 3), (64, 64, 3, 3), (128, 64, 3, 3)]


def test_a_step_written_out() -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(4, 30, 2).to(memory_format=torch.channels_last)
    before = copy.deepcopy(conv)
    optimizer = MuonAdamW(conv.parameters(), mixing_kernels(conv), kernel_rate=5.0, lr=0.01, weight_decay=0.1)
    theirs = torch.optim.AdamW(before.parameters(), lr=0.01, weight_decay=0.1)
    conv.weight.grad, conv.bias.grad = torch.randn(conv.weight.shape), torch.randn(30)
    before.bias.grad = conv.bias.grad.clone()
    gradient = conv.weight.grad.flatten(1)
    optimizer.step()
    theirs.step()
    torch.testing.assert_close(conv.bias, before.bias)
    followed = (1 - MOMENTUM) * gradient + MOMENTUM * (1 - MOMENTUM) * gradient
    moved = 0.05 * (30 / 16) ** 0.5 * orthogonalised(followed).view(30, 4, 2, 2)
    torch.testing.assert_close(conv.weight, before.weight * (1 - 0.001) - moved)


def test_kernels_without_gradients_stay() -> None:
    conv = nn.Conv2d(4, 6, 2)
    before = conv.weight.clone()
    MuonAdamW(conv.parameters(), mixing_kernels(conv), kernel_rate=10.0, lr=0.01).step()
    assert torch.equal(conv.weight, before)
