import numpy as np
import torch

from capsnet.functional.routing import attention_routing


def test_equals_the_equations_written_out():
    batch, parents, children, size = 2, 3, 5, 4
    votes = torch.randn(batch, parents, children, size, dtype=torch.float64)
    attention = torch.randn(parents, size, children, children, dtype=torch.float64)
    transform, bias = (
        torch.randn(parents, size, size, dtype=torch.float64),
        torch.randn(parents, size).double(),
    )
    result = attention_routing(votes, attention, transform, bias)
    for n in range(batch):
        for j in range(parents):
            logits = np.zeros(children)
            for i in range(children):
                for k in range(children):
                    for d in range(size):
                        logits[i] += attention[j, d, k, i] * votes[n, j, k, d]
            coupling = np.exp(logits) / np.exp(logits).sum()
            s = sum(coupling[i] * votes[n, j, i].numpy() for i in range(children))
            pose = np.tanh(s @ transform[j].numpy() + bias[j].numpy())
            assert np.allclose(result.coupling[n, j], coupling, atol=1e-10, rtol=0)
            assert np.allclose(result.poses[n, j], pose, atol=1e-10, rtol=0)
            assert np.allclose(result.activations[n, j], np.linalg.norm(pose) / np.sqrt(size), atol=1e-6)
