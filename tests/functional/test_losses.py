import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from capsnet.functional.losses import margin_loss, reconstruction_loss, spread_loss


def test_margin_loss_equals_the_sum_written_out():
    lengths, targets = torch.rand(4, 3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)[[0, 2, 1, 1]]
    expected = 0.0
    for b in range(4):
        for j in range(3):
            length, present = lengths[b, j].item(), targets[b, j].item()
            expected += present * max(0, 0.9 - length) ** 2 + 0.5 * (1 - present) * max(0, length - 0.1) ** 2
    assert margin_loss(lengths, targets).item() == pytest.approx(expected / 4, abs=1e-14)


@given(present=st.floats(0, 1), absent=st.floats(0, 1))
def test_margin_loss_is_zero_exactly_when_both_margins_are_met(present, absent):
    lengths = torch.tensor([[present, absent]], dtype=torch.float64)
    loss = margin_loss(lengths, torch.tensor([[1.0, 0.0]], dtype=torch.float64)).item()
    if present >= 0.9 and absent <= 0.1:
        assert loss == 0
    elif present < 0.9 - 1e-6 or absent > 0.1 + 1e-6:
        assert loss > 0


def test_margin_loss_takes_several_classes_per_image():
    targets = torch.tensor([[1.0, 1.0, 0.0]])
    assert margin_loss(torch.tensor([[0.95, 0.9, 0.05]]), targets) == 0
    assert margin_loss(torch.tensor([[0.9, 0.0, 0.0]]), targets).item() == pytest.approx(0.81)


def test_margin_loss_gradients():
    lengths = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.eye(4, dtype=torch.float64)[[0, 3, 1]]
    assert gradcheck(lambda x: margin_loss(x, targets), lengths)


def test_reconstruction_loss_is_the_mean_square_over_everything():
    images, targets = torch.rand(2, 1, 3, 4), torch.rand(2, 1, 3, 4)
    expected = sum((a - b) ** 2 for a, b in zip(images.flatten(), targets.flatten(), strict=True)) / 24
    assert torch.allclose(reconstruction_loss(images, targets), expected)


def test_reconstruction_loss_gradients():
    images = torch.rand(2, 1, 3, 3, dtype=torch.float64, requires_grad=True)
    targets = torch.rand(2, 1, 3, 3, dtype=torch.float64)
    assert gradcheck(lambda x: reconstruction_loss(x, targets), images)


def test_spread_loss_equals_the_mean_over_images_and_wrong_classes():
    activations, classes = torch.rand(4, 5, dtype=torch.float64), [0, 3, 1, 1]
    total = 0.0
    for b, right in enumerate(classes):
        for wrong in range(5):
            if wrong != right:
                total += max(0, 0.4 - (activations[b, right] - activations[b, wrong]).item()) ** 2
    targets = torch.eye(5, dtype=torch.float64)[classes]
    assert spread_loss(activations, targets, margin=0.4).item() == pytest.approx(total / 16, abs=1e-14)


def test_spread_loss_is_zero_once_the_margin_is_met():
    assert spread_loss(torch.tensor([[0.95, 0.0, 0.04]]), torch.tensor([[1.0, 0.0, 0.0]]), margin=0.9) == 0


def test_spread_loss_gradients():
    activations = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.eye(4, dtype=torch.float64)[[0, 3, 1]]
    assert gradcheck(lambda x: spread_loss(x, targets, margin=0.9), activations)


def test_spread_loss_is_zero_where_every_class_is_present_or_none():
    for targets in (torch.ones(2, 3), torch.zeros(2, 3)):
        activations = torch.rand(2, 3, requires_grad=True)
        loss = spread_loss(activations, targets)
        loss.backward()
        assert loss == 0
        assert torch.equal(activations.grad, torch.zeros(2, 3))
