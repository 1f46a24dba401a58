import numpy as np
import pytest
import torch

from capsnet.functional.routing import get_routing, heinsen_routing


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def literal(votes, capsules, p, iterations):
    """Algorithm 2 of Heinsen 2022, number by number, with a squash in place of the last layer normalisation."""
    batch, parents, inputs, size = votes.shape
    out, shares = np.zeros((batch, parents, size)), np.zeros((batch, parents, inputs))
    for n in range(batch):
        poses = None
        for _ in range(iterations):
            for i in range(inputs):
                logits = np.zeros(parents)
                for j in range(parents):
                    if poses is not None:
                        z = (poses[j] - poses[j].mean()) / np.sqrt(poses[j].var() + 1e-5)
                        expected = (z @ p["prediction"]) * p["prediction_scale"][j] + p["prediction_bias"][j]
                        fit = capsules[n, i] @ expected * p["similarity"][j, i] + p["similarity_bias"][j, i]
                        logits[j] = np.log(sigmoid(fit))
                shares[n, :, i] = np.exp(logits) / np.exp(logits).sum()
            poses = np.zeros((parents, size))
            for j in range(parents):
                for i in range(inputs):
                    seen = capsules[n, i] @ p["presence"][i] / np.sqrt(inputs) + p["presence_bias"][i]
                    used = sigmoid(seen) * shares[n, j, i]
                    ignored = sigmoid(seen) - used
                    bang = p["benefit"][j, i] * used - p["cost"][j, i] * ignored
                    poses[j] += bang * votes[n, j, i] / np.sqrt(inputs)
        norms = np.linalg.norm(poses, axis=1, keepdims=True)
        out[n] = (1 - np.exp(-norms)) * poses / norms
    return out, shares


@pytest.mark.parametrize("iterations", [1, 2, 4])
def test_equals_the_algorithm_of_the_paper(iterations):
    votes, capsules = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(2, 5, 6, dtype=torch.float64)
    shapes = get_routing("heinsen").learned(5, 3, 4, 6)
    learned = {key: torch.randn(value.shape, dtype=torch.float64) for key, value in shapes.items()}
    result = heinsen_routing(votes, capsules, **learned, iterations=iterations)
    numbers = {key: value.numpy() for key, value in learned.items()}
    poses, shares = literal(votes.numpy(), capsules.numpy(), numbers, iterations)
    assert np.allclose(result.poses, poses, atol=1e-10, rtol=0)
    assert np.allclose(result.coupling, shares, atol=1e-10, rtol=0)


def test_an_input_that_is_absent_counts_neither_for_nor_against():
    votes, capsules = torch.randn(2, 3, 5, 4), torch.randn(2, 5, 6)
    learned = get_routing("heinsen").learned(5, 3, 4, 6)
    learned["presence_bias"][2] = -1e4
    other = votes.clone()
    other[:, :, 2] = 7.0
    first, second = (heinsen_routing(v, capsules, **learned, iterations=1) for v in (votes, other))
    assert torch.allclose(first.poses, second.poses)
