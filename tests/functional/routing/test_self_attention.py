import math

import torch
from torch.autograd import gradcheck

from capsnet.functional.routing import self_attention_routing
from capsnet.functional.squashing import squash, squash_sabour


def literal(votes, log_prior, d):
    """Eqs. 4 to 6 as the paper writes them, with the I x I matrix A of every parent."""
    batch, parents, children, size = votes.shape
    poses, couplings = [], []
    for b in range(batch):
        row_sums = []
        for j in range(parents):
            attention = votes[b, j] @ votes[b, j].T / math.sqrt(d)
            row_sums.append([sum(attention[i, k] for k in range(children)) for i in range(children)])
        agreement = torch.stack([torch.stack(row) for row in row_sums])
        coupling = agreement.exp() / agreement.exp().sum(dim=0, keepdim=True)
        for j in range(parents):
            s = torch.zeros(size, dtype=votes.dtype)
            for i in range(children):
                s = s + (coupling[j, i] + log_prior[j, i]) * votes[b, j, i]
            poses.append(squash(s))
        couplings.append(coupling)
    return torch.stack(poses).reshape(batch, parents, size), torch.stack(couplings)


def test_equals_the_quadratic_form_of_the_paper():
    votes, log_prior = torch.randn(2, 4, 5, 6, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)
    for dimension in (None, 3):
        result = self_attention_routing(votes, log_prior, dimension=dimension)
        poses, coupling = literal(votes, log_prior, dimension or 6)
        assert torch.allclose(result.poses, poses, atol=1e-12, rtol=0)
        assert torch.allclose(result.coupling, coupling, atol=1e-12, rtol=0)


def test_activations_are_the_lengths_of_the_poses():
    result = self_attention_routing(torch.randn(2, 4, 5, 6), torch.zeros(4, 5))
    assert torch.allclose(result.activations, result.poses.norm(dim=-1), atol=1e-4)


def test_coupling_sums_to_one_over_parents():
    result = self_attention_routing(torch.randn(3, 10, 16, 16), torch.randn(10, 16))
    assert torch.allclose(result.coupling.sum(dim=1), torch.ones(3, 16))


def test_order_of_the_input_capsules_does_not_matter():
    votes, log_prior = torch.randn(2, 4, 7, 6, dtype=torch.float64), torch.randn(4, 7, dtype=torch.float64)
    order = torch.randperm(7)
    result = self_attention_routing(votes, log_prior)
    permuted = self_attention_routing(votes[:, :, order], log_prior[:, order])
    assert torch.allclose(permuted.poses, result.poses, atol=1e-12, rtol=0)
    assert torch.allclose(permuted.coupling, result.coupling[:, :, order], atol=1e-12, rtol=0)


def test_takes_another_squash():
    votes = torch.randn(2, 4, 5, 6)
    plain = self_attention_routing(votes, torch.zeros(4, 5), squash=lambda s: s).poses
    assert torch.equal(
        self_attention_routing(votes, torch.zeros(4, 5), squash=squash_sabour).poses, squash_sabour(plain)
    )


def test_gradients():
    votes = torch.randn(2, 3, 4, 2, dtype=torch.float64, requires_grad=True)
    log_prior = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda *inputs: tuple(self_attention_routing(*inputs)), (votes, log_prior))


def test_zero_and_huge_votes_have_finite_results_and_gradients():
    for scale in (0.0, 1e4):
        votes = (scale * torch.randn(2, 4, 5, 6)).requires_grad_()
        log_prior = torch.zeros(4, 5, requires_grad=True)
        result = self_attention_routing(votes, log_prior)
        (result.poses.sum() + result.activations.sum()).backward()
        for tensor in (*result, votes.grad, log_prior.grad):
            assert tensor.isfinite().all()
