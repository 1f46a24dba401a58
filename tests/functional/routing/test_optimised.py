from itertools import pairwise

import numpy as np
import pytest
import torch

from capsnet.errors import CapsNetError
from capsnet.functional.routing import optimised_routing


def literal(votes, iterations, strength, reference):
    """The two minimisers of Wang and Liu 2018, by turns; also the loss after each turn."""
    batch, parents, children, size = votes.shape
    out, couplings, losses = np.zeros((batch, parents, size)), np.zeros((batch, parents, children)), []
    for n in range(batch):
        coupling = np.full((parents, children), 1 / parents)
        for iteration in range(iterations):
            s = np.stack(
                [sum(coupling[j, i] * votes[n, j, i] for i in range(children)) for j in range(parents)]
            )
            direction = s / np.sqrt((s**2).sum(axis=1, keepdims=True) + 1e-12)
            if iteration == iterations - 1:
                break
            prior = coupling if reference == "last" else np.full((parents, children), 1 / parents)
            for i in range(children):
                mass = [
                    prior[j, i] * np.exp(votes[n, j, i] @ direction[j] / strength) for j in range(parents)
                ]
                coupling[:, i] = np.array(mass) / sum(mass)
            agreement = sum(
                coupling[j, i] * votes[n, j, i] @ direction[j]
                for j in range(parents)
                for i in range(children)
            )
            uniform = np.full((parents, children), 1 / parents)
            losses.append(
                -agreement
                + (reference == "uniform") * strength * (coupling * np.log(coupling / uniform)).sum()
            )
        norm = np.linalg.norm(s, axis=1, keepdims=True)
        out[n], couplings[n] = (1 - np.exp(-norm)) * s / norm, coupling
    return out, couplings, losses


@pytest.mark.parametrize("iterations", [1, 2, 4])
@pytest.mark.parametrize("strength", [0.5, 1.0])
@pytest.mark.parametrize("reference", ["last", "uniform"])
def test_equals_the_two_minimisers_by_turns(iterations, strength, reference):
    votes = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    result = optimised_routing(votes, iterations=iterations, strength=strength, reference=reference)
    poses, coupling, _ = literal(votes.numpy(), iterations, strength, reference)
    assert np.allclose(result.poses, poses, atol=1e-10, rtol=0)
    assert np.allclose(result.coupling, coupling, atol=1e-10, rtol=0)


@pytest.mark.parametrize("reference", ["last", "uniform"])
def test_the_loss_falls_with_every_iteration(reference):
    losses = literal(np.random.default_rng(0).normal(size=(1, 3, 5, 4)), 8, 1.0, reference)[2]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(losses))


def test_unknown_reference_is_refused():
    with pytest.raises(CapsNetError, match="reference is 'last' or 'uniform', not 'first'"):
        optimised_routing(torch.randn(1, 2, 3, 4), reference="first")
