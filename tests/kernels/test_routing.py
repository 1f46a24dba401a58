"""Accelerated routings give what plain ones give, and the same to everything that looks inside."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from capsnet.functional.routing import ROUTINGS
from capsnet.functional.routing.matrix_votes import MatrixVotes
from capsnet.kernels import accelerate, recording, routing
from capsnet.kernels import plain as plainly
from capsnet.layers import ClassCapsules, ConvCapsules, DenseCapsules
from capsnet.layers.routing import Routing

NAMES = sorted(ROUTINGS)
MATRIX = ["em", "variational"]
SIDE = 5


@pytest.fixture(params=["compiled", "stored"])
def votes(request, monkeypatch):
    """Votes of matrices that are never stored, and those of machines without a compiler."""
    if request.param == "stored":
        monkeypatch.setattr(routing, "usable", lambda *_: False)


def both(layer, run):
    """What `run` gives with the accelerated layer and with the plain one."""
    return run(accelerate(layer)), run(plainly(layer))


def losses_and_gradients(layer, *inputs):
    layer.zero_grad()
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    outputs = layer(*leaves)
    sum(output.sin().sum() for output in outputs).backward()
    return [*outputs, *(leaf.grad for leaf in leaves), *(p.grad.clone() for p in layer.parameters())]


def assert_close(one, other):
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9)


def dense(name):
    layer = DenseCapsules(5, 3, 3, 4, routing=name).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer, torch.randn(4, 5, 3, dtype=torch.float64)


@pytest.mark.parametrize("name", NAMES)
def test_dense_capsules_have_the_plain_outputs_and_gradients(name):
    layer, capsules = dense(name)
    assert_close(*both(layer, lambda layer: losses_and_gradients(layer, capsules)))


@pytest.mark.parametrize(
    "name", [n for n in NAMES if ROUTINGS[n].takes("iterations") and n != "heinsen"]
)  # Heinsen's poses are in several steps plain products, and are left to PyTorch
def test_every_iterative_routing_is_accelerated(name, monkeypatch):
    layer, capsules = dense(name)
    seen = []
    forward = Routing.forward
    monkeypatch.setattr(
        Routing, "forward", lambda s, votes, *a, **k: seen.append(votes) or forward(s, votes, *a, **k)
    )
    accelerate(layer)(capsules)
    assert [type(votes) for votes in seen] == [routing.RecordedVotes]


@pytest.mark.parametrize("name", NAMES)
def test_transforms_and_gradients_of_gradients_work_as_in_plain_layers(name):
    layer, capsules = dense(name)
    accelerate(layer.eval())
    leaf = capsules.clone().requires_grad_()
    (expected,) = torch.autograd.grad(layer(leaf).poses.square().sum(), leaf)
    found = torch.func.grad(lambda c: layer(c).poses.square().sum())(capsules)
    torch.testing.assert_close(found, expected)
    per_image = torch.func.vmap(torch.func.grad(lambda c: layer(c[None]).poses.square().sum()))(capsules)
    torch.testing.assert_close(per_image, expected)
    assert gradgradcheck(lambda c: tuple(layer(c)), capsules[:1].requires_grad_())


@pytest.mark.parametrize("name", NAMES)
def test_a_gradient_penalty_is_the_plain_one(name):
    layer, capsules = dense(name)
    layer.eval()

    def penalty(layer):
        layer.zero_grad()
        leaf = capsules.clone().requires_grad_()
        (slope,) = torch.autograd.grad(layer(leaf).activations.sum(), leaf, create_graph=True)
        slope.square().sum().backward()
        # self-routing's activations know nothing of the votes' weights
        return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in layer.parameters()]

    assert_close(*both(layer, penalty))


@pytest.mark.usefixtures("votes")
@pytest.mark.parametrize("name", MATRIX)
@pytest.mark.parametrize("kept", [0, 2**26])
@pytest.mark.parametrize("at_once", [1, 2**23])
def test_matrix_capsules_have_the_plain_outputs_and_gradients(name, kept, at_once, monkeypatch):
    monkeypatch.setattr(routing, "_KEPT", kept)
    monkeypatch.setattr(routing, "_AT_ONCE_IN_CACHES", at_once)
    inputs = torch.randn(3, 2, 16, SIDE, SIDE).double(), torch.rand(3, 2, SIDE, SIDE).double()
    for layer in (ConvCapsules(2, 3, routing=name), ClassCapsules(2, 3, routing=name)):
        layer.double()
        assert_close(*both(layer, lambda layer: losses_and_gradients(layer, *inputs)))
        with torch.no_grad():
            assert_close(*both(layer, lambda layer: layer(*inputs)))


@pytest.mark.usefixtures("votes")
@pytest.mark.parametrize("name", MATRIX)
@pytest.mark.parametrize("kept", [0, 2**26])
def test_gradients_of_matrix_capsules_can_be_differentiated_again(name, kept, monkeypatch):
    monkeypatch.setattr(routing, "_KEPT", kept)
    inputs = torch.randn(2, 1, 16, 3, 3).double(), torch.rand(2, 1, 3, 3).double()
    for layer in (
        ConvCapsules(1, 2, kernel=2, routing=name, iterations=2),
        ClassCapsules(1, 2, routing=name, iterations=2),
    ):
        accelerate(layer.double().eval())
        leaves = tuple(tensor.clone().requires_grad_() for tensor in inputs)
        run = lambda *x, layer=layer: tuple(layer(*x))  # noqa: E731
        assert gradcheck(run, leaves, fast_mode=True)
        assert gradgradcheck(run, leaves, fast_mode=True)


@pytest.mark.usefixtures("votes")
@pytest.mark.parametrize("name", MATRIX)
def test_gradients_of_large_batches_can_be_asked_for_by_name(name, monkeypatch):
    """Votes that are computed again are no checkpoint with re-entry, which `autograd.grad` refuses."""
    monkeypatch.setattr(routing, "_KEPT", 0)
    layer = accelerate(ConvCapsules(2, 3, routing=name))
    poses = torch.randn(3, 2, 16, SIDE, SIDE, requires_grad=True)
    routed, _ = layer(poses, torch.rand(3, 2, SIDE, SIDE))
    gradient, of_weight = torch.autograd.grad(routed.square().sum(), (poses, layer.weight))
    assert gradient.isfinite().all()
    assert torch.count_nonzero(of_weight) > 0


@pytest.mark.parametrize("name", MATRIX)
def test_images_are_routed_by_ones_only_where_a_cpus_caches_ask_for_it(name, monkeypatch):
    groups = []

    def note(plan, poses, *rest):
        groups.append(len(poses))
        return recording.differentiate(plan, poses, *rest)

    monkeypatch.setattr(routing, "differentiate", note)
    monkeypatch.setattr(routing, "_AT_ONCE_IN_CACHES", 1)
    for device, expected in (("cpu", [1, 1, 1]), ("meta", [3])):
        groups.clear()
        layer = Routing(name, 2, 3, 16).to(device)
        poses, weight = torch.randn(3, 9, 4, 4, 18, device=device), torch.randn(3, 4, 4, 18, device=device)
        activations = torch.rand(3, 9, 18, device=device)
        result = routing.route_faster(layer, MatrixVotes(poses, weight), activations)
        assert result.poses.shape == (3, 27, 16)
        assert groups == expected


def test_votes_of_other_types_are_left_to_pytorch():
    class Marked(torch.Tensor):
        pass

    layer, _ = dense("dynamic")
    votes = torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True).as_subclass(Marked)
    assert routing.route_faster(layer.routing, votes) is NotImplemented
    matrices = MatrixVotes(torch.randn(2, 9, 4, 4, 18).as_subclass(Marked), torch.randn(3, 4, 4, 18))
    assert routing.route_faster(Routing("em", 2, 3, 16), matrices, torch.rand(2, 9, 18)) is NotImplemented


@pytest.mark.usefixtures("votes")
@pytest.mark.parametrize("name", MATRIX)
def test_matrix_capsules_route_in_inference_mode(name):
    layer = ConvCapsules(2, 3, routing=name).eval()
    inputs = torch.randn(3, 2, 16, SIDE, SIDE), torch.rand(3, 2, SIDE, SIDE)
    with torch.inference_mode():
        for one, other in zip(*both(layer, lambda layer: layer(*inputs)), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
