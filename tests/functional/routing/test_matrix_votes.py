from functools import partial

import pytest
import torch
from torch.autograd import gradcheck

from capsnet.functional.routing import kernels
from capsnet.functional.routing.em import em_loop
from capsnet.functional.routing.matrix_votes import MatrixVotes, in_blocks, route_matrix_votes
from capsnet.functional.routing.positions import over_positions, seen_children
from capsnet.functional.routing.products import Votes, route
from capsnet.functional.routing.variational import variational_loop
from capsnet.functional.votes import compute_matrix_votes

B, P, J = 2, 9, 3
LOOPS = {
    "em": em_loop,
    "variational": lambda *args, **options: variational_loop(*args, siblings=J, **options),
}

pytestmark = pytest.mark.skipif(
    kernels.load_kernels(torch.float64) is None, reason="no C compiler: the votes are stored"
)


def stored(poses, weight):
    """Votes (B, P x J, I, D), as the loops that store them take them."""
    return compute_matrix_votes(poses, weight).flatten(3, 4).flatten(1, 2).transpose(2, 3)


def random_matrices(inputs, dtype=torch.float64):
    return torch.randn(B, P, 4, 4, inputs, dtype=dtype), torch.randn(J, 4, 4, inputs, dtype=dtype)


@pytest.mark.parametrize("inputs", [1, 16, 45])
def test_passes_equal_the_products_of_stored_votes(inputs):
    poses, weight = random_matrices(inputs)
    votes = MatrixVotes(in_blocks(poses), in_blocks(weight), inputs=inputs)
    reference = Votes(stored(poses, weight), centred=True)
    assert torch.allclose(votes.centre, reference.centre, atol=1e-10, rtol=0)
    weights = torch.rand(B, P * J, inputs).double()
    for got, want in zip(votes.moments(weights), reference.moments(weights), strict=True):
        assert torch.allclose(got, want, atol=1e-10, rtol=0)
    density = torch.randn(B, P * J).double(), *torch.randn(2, B, P * J, 16).double()
    assert torch.allclose(votes.density(*density), reference.density(*density), atol=1e-10, rtol=0)


@pytest.mark.parametrize("routing", LOOPS)
@pytest.mark.parametrize("iterations", [1, 3])
def test_routing_and_all_its_gradients_equal_those_of_stored_votes(routing, iterations):
    seen = seen_children((5, 5, 5), 3, 1)
    inputs = seen.shape[1]
    tensors = [*random_matrices(inputs), *torch.randn(2, P * J).double(), torch.rand(B, P, inputs).double()]
    loop = LOOPS[routing](over_positions(seen, 125), iterations=iterations)

    def results(route_these):
        leaves = [t.clone().requires_grad_() for t in tensors]
        outputs = route_these(*leaves)
        generator = torch.Generator().manual_seed(0)
        total = sum((o * torch.rand(o.shape, generator=generator, dtype=o.dtype)).sum() for o in outputs)
        return *outputs, *torch.autograd.grad(total, leaves)

    got = results(partial(route_matrix_votes, loop))
    want = results(lambda poses, weight, *rest: route(loop, stored(poses, weight), *rest, centred=True))
    for one, other in zip(got, want, strict=True):
        assert torch.allclose(one, other, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("routing", LOOPS)
def test_gradients_are_right(routing):
    seen = seen_children((1, 4, 4), 2, 1)
    loop = LOOPS[routing](over_positions(seen, 16), iterations=2)
    poses, weight = random_matrices(4)
    tensors = poses, weight, *torch.randn(2, P * J).double(), torch.rand(B, P, 4).double()
    assert gradcheck(
        partial(route_matrix_votes, loop), tuple(t.requires_grad_() for t in tensors), fast_mode=True
    )


def test_a_common_offset_of_the_votes_costs_no_digits():
    poses, weight = random_matrices(40)
    poses[..., 0, :], weight[:, 0] = 1.0, 1000.0  # the same thousand in all votes
    weights = torch.rand(B, P * J, 40)
    exact = MatrixVotes(in_blocks(poses), in_blocks(weight), inputs=40)
    rough = MatrixVotes(in_blocks(poses.float()), in_blocks(weight.float()), inputs=40)

    def scatter(votes, weights):
        mass, first, second = votes.moments(weights)
        return second - first.square() / mass.unsqueeze(-1)

    assert torch.allclose(scatter(rough, weights).double(), scatter(exact, weights.double()), rtol=2e-3)


def test_any_number_of_threads_gives_the_same_bits():
    poses, weight = random_matrices(45, torch.float32)
    tensors = torch.zeros(P * J), torch.zeros(P * J), torch.rand(B, P, 45)
    seen, before, results = seen_children((5, 5, 5), 3, 1), torch.get_num_threads(), []
    leaves = poses.requires_grad_(), weight.requires_grad_()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            routed = route_matrix_votes(em_loop(over_positions(seen, 125)), *leaves, *tensors)
            results.append([*routed, *torch.autograd.grad(routed[0].sum(), leaves)])
    finally:
        torch.set_num_threads(before)
    for one, *others in zip(*results, strict=True):
        assert all(torch.equal(one, other) for other in others)
