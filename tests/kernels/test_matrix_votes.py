from functools import partial

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from capsnet import create_model
from capsnet.evaluate.cost import count_operations
from capsnet.functional.routing import em_routing, variational_routing
from capsnet.functional.routing.matrix_votes import MatrixVotes
from capsnet.functional.routing.positions import OverPositions, seen_children
from capsnet.functional.routing.products import Votes
from capsnet.kernels import accelerate, plain
from capsnet.kernels.matrix_votes import CompiledVotes, from_blocks, in_blocks, load_passes, usable
from capsnet.kernels.routing import GroupedVotes

B, P, J = 2, 9, 3
ROUTINGS = {"em": em_routing, "variational": variational_routing}

pytestmark = pytest.mark.skipif(
    load_passes(torch.float64) is None, reason="no C compiler: the votes are stored"
)


def random_matrices(inputs, dtype=torch.float64):
    return torch.randn(B, P, 4, 4, inputs, dtype=dtype), torch.randn(J, 4, 4, inputs, dtype=dtype)


@pytest.mark.parametrize("inputs", [1, 16, 45])
def test_passes_equal_the_products_of_stored_votes(inputs):
    poses, weight = random_matrices(inputs)
    votes = CompiledVotes(in_blocks(poses), in_blocks(weight), inputs=inputs)
    reference = Votes(MatrixVotes(poses, weight).stored(), centred=True)
    assert torch.allclose(votes.centre, reference.centre, atol=1e-10, rtol=0)
    weights = torch.rand(B, P * J, inputs).double()
    for got, want in zip(votes.moments(weights), reference.moments(weights), strict=True):
        assert torch.allclose(got, want, atol=1e-10, rtol=0)
    density = torch.randn(B, P * J).double(), *torch.randn(2, B, P * J, 16).double()
    assert torch.allclose(votes.density(*density), reference.density(*density), atol=1e-10, rtol=0)


def test_blocks_are_undone():
    for inputs in (1, 16, 45):
        poses, _ = random_matrices(inputs)
        assert torch.equal(from_blocks(in_blocks(poses), inputs), poses)


def route_by(routing, kind, normalise, iterations, poses, weight, beta_a, beta_u, activations):
    votes = kind(poses, weight)
    return tuple(
        ROUTINGS[routing](votes, beta_a, beta_u, activations, normalise=normalise, iterations=iterations)
    )


def random_arguments(inputs):
    return *random_matrices(inputs), *torch.randn(2, J).double(), torch.rand(B, P, inputs).double()


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("iterations", [1, 3])
def test_routing_and_all_its_gradients_equal_those_of_stored_votes(routing, iterations):
    seen = seen_children((5, 5, 5), 3, 1)
    tensors, results = random_arguments(seen.shape[1]), []
    for kind in (GroupedVotes, MatrixVotes):
        leaves = [t.clone().requires_grad_() for t in tensors]
        outputs = route_by(routing, kind, OverPositions(seen, 125), iterations, *leaves)
        generator = torch.Generator().manual_seed(0)
        total = sum((o * torch.rand(o.shape, generator=generator, dtype=o.dtype)).sum() for o in outputs)
        results.append((*outputs, *torch.autograd.grad(total, leaves)))
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_gradients_and_theirs_are_right(routing):
    seen = seen_children((1, 4, 4), 2, 1)
    run = partial(route_by, routing, GroupedVotes, OverPositions(seen, 16), 2)
    tensors = tuple(t[:1].clone() if t.ndim > 2 and len(t) == B else t for t in random_arguments(4))
    leaves = tuple(t.requires_grad_() for t in tensors)
    assert gradcheck(run, leaves, fast_mode=True)
    assert gradgradcheck(run, leaves, fast_mode=True)


def test_a_common_offset_of_the_votes_costs_no_digits():
    poses, weight = random_matrices(40)
    poses[..., 0, :], weight[:, 0] = 1.0, 1000.0  # the same thousand in all votes
    weights = torch.rand(B, P * J, 40)
    exact = CompiledVotes(in_blocks(poses), in_blocks(weight), inputs=40)
    rough = CompiledVotes(in_blocks(poses.float()), in_blocks(weight.float()), inputs=40)

    def scatter(votes, weights):
        mass, first, second = votes.moments(weights)
        return second - first.square() / mass.unsqueeze(-1)

    assert torch.allclose(scatter(rough, weights).double(), scatter(exact, weights.double()), rtol=2e-3)


def test_any_number_of_threads_gives_the_same_bits():
    poses, weight = random_matrices(45, torch.float32)
    small = torch.zeros(J), torch.zeros(J), torch.rand(B, P, 45)
    normalise = OverPositions(seen_children((5, 5, 5), 3, 1), 125)
    before, results = torch.get_num_threads(), []
    leaves = poses.requires_grad_(), weight.requires_grad_()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            routed = route_by("em", GroupedVotes, normalise, 3, *leaves, *small)
            results.append([*routed, *torch.autograd.grad(routed[0].sum(), leaves)])
    finally:
        torch.set_num_threads(before)
    for one, *others in zip(*results, strict=True):
        assert all(torch.equal(one, other) for other in others)


def test_only_plain_tensors_of_one_known_type_are_read():
    single, double = torch.zeros(2), torch.zeros(2).double()
    assert usable(single)
    assert not usable(single, double)
    assert not usable(single.half())
    assert not usable(torch.zeros(2, device="meta"))
    with torch.autocast("cpu"):
        assert not usable(single)


def test_operations_are_counted_as_in_the_plain_model():
    model = create_model("matrix_capsnet", types=(8, 4, 4, 4))
    assert count_operations(accelerate(model)) == count_operations(plain(model))
