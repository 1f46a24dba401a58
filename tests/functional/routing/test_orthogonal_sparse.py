import numpy as np
import torch

from capsnet.functional.routing import get_routing, orthogonal_sparse_routing, self_attention_routing
from capsnet.functional.routing.orthogonal_sparse import entmax, householder


def literal_householder(vectors):
    """I - 2 v v^T / v^T v for each vector, multiplied in their order."""
    matrix = np.eye(vectors.shape[1])
    for v in vectors:
        matrix = matrix @ (np.eye(len(v)) - 2 * np.outer(v, v) / (v @ v))
    return matrix


def literal_entmax(z):
    """max(z / 2 - tau, 0)^2 with tau by bisection."""
    low, high = z.min() / 2 - 1, z.max() / 2
    for _ in range(200):
        tau = (low + high) / 2
        if (np.maximum(z / 2 - tau, 0) ** 2).sum() > 1:
            low = tau
        else:
            high = tau
    return np.maximum(z / 2 - tau, 0) ** 2


def literal(votes, reflections):
    batch, parents, inputs, size = votes.shape
    queries, keys, values = (literal_householder(vectors) for vectors in reflections)
    out, coupling = np.zeros((batch, parents, size)), np.zeros((batch, parents, inputs))
    for n in range(batch):
        logits = np.zeros((parents, inputs))
        for j in range(parents):
            for i in range(inputs):
                for k in range(inputs):
                    logits[j, i] += (votes[n, j, i] @ queries) @ (votes[n, j, k] @ keys) / np.sqrt(size)
        for i in range(inputs):
            coupling[n, :, i] = literal_entmax(logits[:, i])
        for j in range(parents):
            s = sum(coupling[n, j, i] * (votes[n, j, i] @ values) for i in range(inputs))
            norm = np.linalg.norm(s)
            out[n, j] = (1 - np.exp(-norm)) * s / norm if norm else s
    return out, coupling


def test_equals_the_procedure_written_out():
    votes = torch.randn(3, 6, 5, 4, dtype=torch.float64) / 2
    reflections = torch.randn(3, 4, 4, dtype=torch.float64)
    result = orthogonal_sparse_routing(votes, reflections)
    poses, coupling = literal(votes.numpy(), reflections.numpy())
    assert np.allclose(result.coupling, coupling, atol=1e-10, rtol=0)
    assert np.allclose(result.poses, poses, atol=1e-10, rtol=0)


def test_products_of_reflections_are_orthogonal_whatever_the_vectors():
    for vectors in (torch.randn(3, 16, 16), 1e4 * torch.randn(3, 16, 16), 1e-4 * torch.randn(3, 16, 16)):
        matrices = householder(vectors)
        torch.testing.assert_close(matrices @ matrices.mT, torch.eye(16).expand(3, -1, -1), atol=2e-5, rtol=0)


def test_entmax_has_exact_zeros_keeps_the_order_and_is_uniform_for_equal_logits():
    logits = torch.randn(4, 10, 7, dtype=torch.float64) * 3
    shares = entmax(logits)
    assert torch.allclose(shares.sum(dim=1), torch.ones(4, 7, dtype=torch.float64))
    assert (shares == 0).double().mean() > 0.3
    assert torch.equal(shares.argmax(dim=1), logits.argmax(dim=1))
    assert torch.allclose(entmax(torch.zeros(1, 10, 1)), torch.full((1, 10, 1), 0.1))
    assert torch.allclose(entmax(logits + 100), shares)


def test_starts_as_plain_agreement_of_the_votes():
    votes = torch.randn(2, 10, 6, 16, dtype=torch.float64) / 4
    learned = {k: v.double() for k, v in get_routing("orthogonal_sparse").learned(6, 10, 16, None).items()}
    sparse = orthogonal_sparse_routing(votes, **learned).coupling
    dense = self_attention_routing(votes, torch.zeros(10, 6, dtype=torch.float64)).coupling
    assert torch.equal(sparse.argmax(dim=1), dense.argmax(dim=1))
    assert torch.allclose(sparse, entmax(dense.log()), atol=1e-10)
