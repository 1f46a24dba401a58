import numpy as np
import pytest
import torch

from capsnet.functional.routing import em_routing


def literal(votes, activations, beta_a, beta_u, iterations):
    """Procedure 1 of Hinton et al. 2018 with the constants of its authors, one parent at a time."""
    batch, parents, children, size = votes.shape
    poses, active = np.zeros((batch, parents, size)), np.zeros((batch, parents))
    couplings = np.zeros((batch, parents, children))
    for n in range(batch):
        r = np.full((parents, children), 1 / parents)
        for iteration in range(iterations):
            slope = 0.01 * (1 - 0.95 ** (iteration + 1))
            density = np.zeros((parents, children))
            couplings[n] = r
            for j in range(parents):
                weight = r[j] * activations[n]
                mass = weight.sum() + 1e-7
                mean = sum(weight[i] * votes[n, j, i] for i in range(children)) / mass
                variance = sum(weight[i] * (votes[n, j, i] - mean) ** 2 for i in range(children)) / mass
                variance = np.maximum(variance, 5e-4)
                cost = sum((beta_u[j] + np.log(np.sqrt(variance[h]))) * mass for h in range(size))
                poses[n, j], active[n, j] = mean, 1 / (1 + np.exp(-slope * (beta_a[j] - cost)))
                for i in range(children):
                    exponent = ((votes[n, j, i] - mean) ** 2 / (2 * variance)).sum()
                    density[j, i] = active[n, j] * np.exp(-exponent) / np.sqrt(np.prod(2 * np.pi * variance))
            r = density / density.sum(axis=0)
    return poses, active, couplings


@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_equals_the_procedure_of_the_paper(iterations, offset):
    votes = torch.randn(2, 3, 5, 4, dtype=torch.float64) + offset
    activations, beta_a, beta_u = torch.rand(2, 5).double(), torch.randn(3).double(), torch.randn(3).double()
    result = em_routing(votes, beta_a, beta_u, activations, iterations=iterations)
    expected = literal(votes.numpy(), activations.numpy(), beta_a.numpy(), beta_u.numpy(), iterations)
    for got, want in zip(result, expected, strict=True):
        assert np.allclose(got, want, atol=1e-10, rtol=0)


def test_absent_capsules_have_no_say():
    votes, activations = torch.randn(2, 3, 5, 4), torch.ones(2, 5)
    activations[:, 4] = 0
    changed = votes.clone()
    changed[:, :, 4] += 7
    betas = (torch.zeros(3), torch.zeros(3))
    assert torch.allclose(
        em_routing(votes, *betas, activations).poses,
        em_routing(changed, *betas, activations).poses,
        atol=1e-4,
    )


def test_the_variance_floor_holds_where_all_votes_agree():
    votes = torch.randn(2, 3, 1, 4).expand(-1, -1, 6, -1).clone().requires_grad_()
    result = em_routing(votes, torch.zeros(3), torch.zeros(3), torch.ones(2, 6))
    assert torch.allclose(result.poses, votes[:, :, 0], atol=1e-4)
    result.activations.sum().backward()
    assert votes.grad.isfinite().all()
