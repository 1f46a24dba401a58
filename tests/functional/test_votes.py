import pytest
import torch
from torch.autograd import gradcheck

from capsnet.functional.votes import compute_votes


def test_votes_equal_a_matrix_product_for_each_pair():
    capsules, weight = torch.randn(2, 3, 4), torch.randn(5, 3, 4, 6)
    votes = compute_votes(capsules, weight)
    assert votes.shape == (2, 5, 3, 6)
    for b in range(2):
        for j in range(5):
            for i in range(3):
                assert torch.allclose(votes[b, j, i], capsules[b, i] @ weight[j, i], atol=1e-6)


def test_votes_are_linear_in_the_capsules():
    one, two, weight = torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.randn(5, 3, 4, 6)
    together = compute_votes(one + 2 * two, weight)
    assert torch.allclose(together, compute_votes(one, weight) + 2 * compute_votes(two, weight), atol=1e-5)


def test_votes_gradients():
    capsules = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 3, 2, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(compute_votes, (capsules, weight))


def test_shapes_are_checked_while_testing():
    with pytest.raises(Exception, match="Type-check error"):
        compute_votes(torch.randn(2, 3, 4), torch.randn(5, 3, 7, 6))
