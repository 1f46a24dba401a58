"""Only the images that hold the loss are learned from."""

import pytest
import torch
from torch import Tensor

import capsnet
from capsnet.data import load_dataset
from capsnet.data.base import Batch
from capsnet.train.selection import FEWEST, fewest_holding, hardest


def test_the_fewest_that_hold_the_share_are_kept_to_the_next_multiple_of_eight() -> None:
    losses = torch.zeros(64)
    losses[5:35] = 1.0
    assert fewest_holding(losses, 0.7).tolist() == list(range(5, 29)), (
        "21 hold 0.7 of 30; 24 is the next multiple"
    )


def test_an_even_loss_keeps_every_image() -> None:
    assert len(fewest_holding(torch.ones(64), 0.99)) == 64


@pytest.mark.parametrize("losses", [torch.zeros(64), torch.eye(64)[3]])
def test_a_few_are_kept_however_few_hold_the_loss(losses: Tensor) -> None:
    kept = fewest_holding(losses, 0.99)
    assert len(kept) == FEWEST
    assert losses[kept].sum() == losses.sum()


def test_a_batch_smaller_than_the_fewest_is_kept_whole() -> None:
    assert len(fewest_holding(torch.rand(5), 0.5)) == 5


def test_a_trained_network_learns_from_few_and_their_gradient_is_nearly_that_of_all() -> None:
    digits, model = load_dataset("mnist"), capsnet.load("efficient_capsnet.mnist").train()
    batch = digits.training_batch(
        digits.train.select(torch.arange(128)), "byerly", torch.Generator().manual_seed(0)
    )
    kept = hardest(model, batch, 0.99)
    assert len(kept.images) <= 32
    assert model.training
    model.eval()  # BatchNorm's statistics of a batch would tie all images together

    def gradient(some: Batch) -> Tensor:
        loss = model.classification_loss(model(some.images), some.targets) * len(some.images) / 128
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.encoder.parameters()))])

    whole, part = gradient(batch), gradient(kept)
    assert (whole - part).norm() < 0.05 * whole.norm()
