import numpy as np
import pytest
import torch
from torch import nn

from capsnet.functional.routing import variational_routing


def digamma(x):
    return torch.digamma(torch.tensor(x, dtype=torch.float64)).item()


def literal(votes, activations, beta_a, beta_u, iterations):
    """Procedure 1 of Ribeiro et al. 2020, diagonal, one parent at a time, before the batch normalisations."""
    batch, parents, children, size = votes.shape
    poses, logits = np.zeros((batch, parents, size)), np.zeros((batch, parents))
    couplings = np.zeros((batch, parents, children))
    for n in range(batch):
        r = np.full((parents, children), 1 / parents)
        for _ in range(iterations):
            couplings[n] = r
            weights = r * activations[n]
            alphas = 1 + weights.sum(axis=1)
            log_r = np.zeros((parents, children))
            for j in range(parents):
                mass = weights[j].sum()
                kappa, nu = 1 + mass, size + 1 + mass
                mean = sum(weights[j, i] * votes[n, j, i] for i in range(children)) / mass
                m = mass * mean / kappa
                inverse_psi = 1 + sum(weights[j, i] * (votes[n, j, i] - mean) ** 2 for i in range(children))
                inverse_psi = inverse_psi + mass / kappa * mean**2
                log_pi = digamma(alphas[j]) - digamma(alphas.sum())
                log_det = (
                    sum(digamma((nu - d) / 2) for d in range(size))
                    + size * np.log(2)
                    - np.log(inverse_psi).sum()
                )
                for i in range(children):
                    distance = size / kappa + nu * ((votes[n, j, i] - m) ** 2 / inverse_psi).sum()
                    log_r[j, i] = log_pi + log_det / 2 - size / 2 * np.log(2 * np.pi) - distance / 2
                entropy = size / 2 * np.log(2 * np.pi * np.e) - log_det / 2
                poses[n, j], logits[n, j] = m, beta_a[j] - (np.exp(log_pi) * entropy + beta_u[j])
            r = np.exp(log_r) / np.exp(log_r).sum(axis=0)
    return poses, logits, couplings


@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_equals_the_procedure_of_the_paper(iterations, offset):
    votes = torch.randn(4, 3, 5, 4, dtype=torch.float64) + offset
    activations, beta_a, beta_u = (
        torch.rand(4, 5).double() + 0.1,
        torch.randn(3).double(),
        torch.randn(3).double(),
    )
    poses, logits, coupling = literal(
        votes.numpy(), activations.numpy(), beta_a.numpy(), beta_u.numpy(), iterations
    )
    plain = variational_routing(votes, beta_a, beta_u, activations, iterations=iterations)
    assert np.allclose(plain.poses, poses, atol=1e-10, rtol=0)
    assert np.allclose(plain.activations, 1 / (1 + np.exp(-logits)), atol=1e-10, rtol=0)
    assert np.allclose(plain.coupling, coupling, atol=1e-10, rtol=0)


def test_poses_and_activations_are_normalised_over_the_batch():
    votes, betas = (
        torch.randn(6, 3, 5, 4, dtype=torch.float64),
        (torch.zeros(3).double(), torch.zeros(3).double()),
    )
    activations = torch.rand(6, 5).double()
    plain = variational_routing(votes, *betas, activations)
    norms = [nn.BatchNorm1d(3, affine=False).double() for _ in range(2)]
    result = variational_routing(votes, *betas, activations, *norms)
    mean, variance = plain.poses.mean(dim=(0, 2)), plain.poses.var(dim=(0, 2), unbiased=False)
    expected = (plain.poses - mean[:, None]) / (variance[:, None] + 1e-5).sqrt()
    assert torch.allclose(result.poses, expected, atol=1e-10)
    logits = plain.activations.logit()
    expected = (logits - logits.mean(dim=0)) / (logits.var(dim=0, unbiased=False) + 1e-5).sqrt()
    assert torch.allclose(result.activations, expected.sigmoid(), atol=1e-10)
