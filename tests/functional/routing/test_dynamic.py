import numpy as np
import pytest
import torch

from capsnet.functional.routing import dynamic_routing, leaky_routing, uniform_routing
from capsnet.functional.squashing import squash


def literal(votes, bias, iterations, leaky):
    """Procedure 1 of Sabour et al. 2017, one number at a time."""
    batch, parents, children, size = votes.shape
    poses, couplings = np.zeros((batch, parents, size)), np.zeros((batch, parents, children))
    for n in range(batch):
        logits = np.zeros((children, parents))
        for _ in range(iterations):
            coupling = np.zeros((children, parents))
            for i in range(children):
                total = sum(np.exp(logits[i, j]) for j in range(parents)) + (1 if leaky else 0)
                for j in range(parents):
                    coupling[i, j] = np.exp(logits[i, j]) / total
            for j in range(parents):
                s = sum(coupling[i, j] * votes[n, j, i] for i in range(children)) + bias[j]
                squared = float(s @ s)
                poses[n, j] = squared / (1 + squared) * s / np.sqrt(squared)
            for i in range(children):
                for j in range(parents):
                    logits[i, j] += votes[n, j, i] @ poses[n, j]
        couplings[n] = coupling.T
    return poses, couplings


@pytest.mark.parametrize("iterations", [1, 2, 3, 5])
@pytest.mark.parametrize("leaky", [False, True])
def test_equals_the_procedure_of_the_paper(iterations, leaky):
    votes, bias = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    routing = leaky_routing if leaky else dynamic_routing
    result = routing(votes, bias, iterations=iterations)
    poses, coupling = literal(votes.numpy(), bias.numpy(), iterations, leaky)
    assert np.allclose(result.poses, poses, atol=1e-10, rtol=0)
    assert np.allclose(result.coupling, coupling, atol=1e-10, rtol=0)
    assert np.allclose(result.activations, np.linalg.norm(poses, axis=-1), atol=1e-5)


def test_without_bias_equals_a_bias_of_zero():
    votes = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    assert torch.equal(dynamic_routing(votes).poses, dynamic_routing(votes, torch.zeros(3, 4).double()).poses)


def test_one_iteration_is_no_routing():
    votes = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    assert torch.allclose(
        dynamic_routing(votes, iterations=1).poses, uniform_routing(votes).poses, atol=1e-12
    )


def test_uniform_equals_the_squashed_mean_share():
    votes = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    expected = squash(sum(votes[:, :, i] / 3 for i in range(5)))
    assert torch.allclose(uniform_routing(votes, squash=squash).poses, expected, atol=1e-12, rtol=0)
