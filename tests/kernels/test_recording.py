import gc

import pytest
import torch

from capsnet.functional.routing.products import Votes
from capsnet.kernels.recording import RecordedVotes


def route(loop, votes, *small, centred=False):
    return RecordedVotes(votes).route(loop, small, (), centred=centred)


def loop(votes, weights, poses):
    coupling = votes.agreement(poses).softmax(dim=1) * weights
    for _ in range(2):
        fitted = votes.weighted_sum(coupling) / (1 + votes.weighted_squares(coupling)) + votes.centre
        coupling = (votes.agreement(fitted) - votes.square_agreement(fitted.square())).softmax(
            dim=1
        ) * weights
    return fitted, coupling


@pytest.mark.parametrize("centred", [False, True])
def test_gradient_written_once_equals_the_sum_of_the_products_own(centred):
    inputs = [
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in [(2, 3, 5, 4), (2, 3, 5), (2, 3, 4)]
    ]
    results = []
    for function in (
        lambda v, *t: loop(Votes(v, centred=centred), *t),
        lambda v, *t: route(loop, v, *t, centred=centred),
    ):
        outputs = function(*inputs)
        loss = sum((o * torch.arange(o.numel(), dtype=o.dtype).view_as(o)).sum() for o in outputs)
        results.append((*outputs, *torch.autograd.grad(loss, inputs)))
    for plain, once in zip(*results, strict=True):
        assert torch.allclose(plain, once, atol=1e-10, rtol=1e-10)


def test_backward_may_run_twice_when_the_graph_is_retained():
    votes = torch.randn(2, 3, 5, 4, requires_grad=True)
    outputs = route(lambda v: (v.weighted_sum(v.agreement(torch.ones(2, 3, 4)).softmax(dim=1)),), votes)
    first = torch.autograd.grad(outputs[0].sum(), votes, retain_graph=True)[0]
    second = torch.autograd.grad(outputs[0].sum(), votes)[0]
    assert torch.equal(first, second)


def test_votes_are_freed_after_backward_though_the_loss_lives_on():
    weight = torch.randn(8, 7, 64, 16, requires_grad=True)
    votes = weight * 1
    size = votes.numel()
    outputs = route(lambda v: (v.weighted_sum(torch.rand(8, 7, 64)),), votes, centred=True)
    loss = outputs[0].sum()
    del votes, outputs
    loss.backward()
    gc.collect()
    alive = [o for o in gc.get_objects() if type(o) is torch.Tensor and o.numel() == size]
    assert len(alive) <= 1, "only the weight's own gradient may be as large as the votes"
    assert loss.grad_fn is not None


def test_without_gradients_nothing_is_recorded():
    with torch.no_grad():
        (total,) = route(lambda v: (v.weighted_sum(torch.ones(1, 2, 3)),), torch.ones(1, 2, 3, 4))
    assert torch.equal(total, torch.full((1, 2, 4), 3.0))


def test_gradients_of_gradients_are_right_where_an_input_depends_on_another():
    def run(votes, weights):
        return route(loop, votes, weights, votes.mean(dim=2) * 2)

    inputs = [torch.randn(shape, dtype=torch.float64) for shape in [(1, 2, 3, 2), (1, 2, 3)]]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)
