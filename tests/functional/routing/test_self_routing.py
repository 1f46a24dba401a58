import numpy as np
import pytest
import torch

from capsnet.errors import CapsNetError
from capsnet.functional.routing import self_routing
from capsnet.functional.routing.self_routing import negative_log_likelihood
from capsnet.layers import DenseCapsules, Routing


def literal(votes, routes, capsules, activations):
    """Eqs. 2 to 4 of Hahn et al. 2019, number by number."""
    batch, parents, inputs, size = votes.shape
    poses, shares = np.zeros((batch, parents, size)), np.zeros((batch, parents))
    coupling = np.zeros((batch, parents, inputs))
    for n in range(batch):
        for i in range(inputs):
            logits = [float(np.dot(routes[j, i], capsules[n, i])) for j in range(parents)]
            for j in range(parents):
                coupling[n, j, i] = np.exp(logits[j]) / sum(np.exp(logit) for logit in logits)
        for j in range(parents):
            sent = sum(coupling[n, j, i] * activations[n, i] for i in range(inputs))
            shares[n, j] = sent / sum(activations[n])
            for i in range(inputs):
                poses[n, j] += coupling[n, j, i] * activations[n, i] * votes[n, j, i] / sent
    return poses, shares, coupling


def arguments():
    return (
        torch.randn(2, 3, 5, 4, dtype=torch.float64),
        torch.randn(3, 5, 6, dtype=torch.float64),
        torch.randn(2, 5, 6, dtype=torch.float64),
        torch.rand(2, 5, dtype=torch.float64),
    )


def test_equals_the_equations_written_out():
    given = arguments()
    for found, expected in zip(self_routing(*given), literal(*(x.numpy() for x in given)), strict=True):
        assert np.allclose(found, expected, atol=1e-12, rtol=0)


def test_activations_are_a_distribution_that_no_vote_changes():
    votes, *others = arguments()
    result = self_routing(votes, *others)
    assert torch.allclose(result.activations.sum(dim=1), torch.ones(2, dtype=torch.float64))
    assert torch.equal(self_routing(-3 * votes, *others).activations, result.activations)


def test_absent_inputs_give_zeros():
    votes, routes, capsules, activations = arguments()
    result = self_routing(votes, routes, capsules, torch.zeros_like(activations))
    assert result.poses.count_nonzero() == result.activations.count_nonzero() == 0


def test_the_loss_is_the_log_likelihood_and_finite_at_zero():
    activations, targets = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]]), torch.eye(3)[[0, 2]]
    assert negative_log_likelihood(activations, targets, 1.0).item() == pytest.approx(np.log(2) / 2)
    assert negative_log_likelihood(activations.flip(1), targets, 1.0).isfinite()
    both = torch.tensor([[1.0, 1.0, 0.0]])
    assert negative_log_likelihood(activations[:1], both, 1.0).item() == pytest.approx(1.5 * np.log(2))


def test_the_layer_gives_it_the_input_poses():
    layer, capsules = DenseCapsules(6, 8, 4, 16, routing="self_routing"), torch.randn(3, 6, 8)
    expected = torch.einsum("bik,jik->bji", capsules, layer.routing.routes).softmax(dim=1)
    assert torch.allclose(layer(capsules).coupling, expected, atol=1e-6)


def test_without_the_input_size_there_is_one_sentence():
    with pytest.raises(CapsNetError, match="'self_routing' reads the input capsules' poses; give their size"):
        Routing("self_routing", 6, 4, 16)
