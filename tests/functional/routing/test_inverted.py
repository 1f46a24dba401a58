import numpy as np
import pytest
import torch

from capsnet.functional.routing import inverted_routing


def literal(votes, weight, bias, iterations):
    """Procedure 1 of Tsai et al. 2020 with the last layer normalisation replaced by a squash."""
    batch, parents, children, size = votes.shape
    out, couplings = np.zeros((batch, parents, size)), np.zeros((batch, parents, children))
    for n in range(batch):
        poses = np.zeros((parents, size))
        for iteration in range(iterations):
            agreement = np.array(
                [[poses[j] @ votes[n, j, i] for i in range(children)] for j in range(parents)]
            )
            coupling = np.exp(agreement) / np.exp(agreement).sum(axis=0)
            for j in range(parents):
                s = sum(coupling[j, i] * votes[n, j, i] for i in range(children))
                if iteration < iterations - 1:
                    poses[j] = (s - s.mean()) / np.sqrt(s.var() + 1e-5) * weight + bias
                else:
                    norm = np.linalg.norm(s)
                    poses[j] = (1 - np.exp(-norm)) * s / norm
        out[n], couplings[n] = poses, coupling
    return out, couplings


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_equals_the_procedure_of_the_paper(iterations):
    votes = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    weight, bias = torch.randn(4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    result = inverted_routing(votes, weight, bias, iterations=iterations)
    poses, coupling = literal(votes.numpy(), weight.numpy(), bias.numpy(), iterations)
    assert np.allclose(result.poses, poses, atol=1e-10, rtol=0)
    assert np.allclose(result.coupling, coupling, atol=1e-10, rtol=0)
