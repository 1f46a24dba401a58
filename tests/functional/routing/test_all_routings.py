"""Properties of every registered routing: registering one tests it."""

import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.utils.checkpoint import checkpoint

from capsnet import create_model
from capsnet.errors import CapsNetError
from capsnet.functional.routing import ROUTINGS, get_routing
from capsnet.layers import DenseCapsules

NAMES = sorted(ROUTINGS)
INPUTS, PARENTS, SIZE = 5, 3, 4


def arguments_of(name, i=INPUTS, j=PARENTS, d=SIZE, *, batch=2, dtype=torch.float64):
    """Learned tensors drawn at random, and activations and input poses where the routing takes them."""
    routing, arguments = get_routing(name), {}
    for key, value in routing.learned(i, j, d, 3).items():
        if isinstance(value, nn.Module):
            arguments[key] = value.to(dtype).eval()
        else:
            arguments[key] = torch.randn_like(value, dtype=dtype) / 2
    if routing.takes("bias") and "bias" not in arguments:
        arguments["bias"] = torch.randn(j, d, dtype=dtype) / 2
    if routing.takes("activations"):
        arguments["activations"] = torch.rand(batch, i, dtype=dtype) * 0.9 + 0.05
    if routing.takes("capsules"):
        arguments["capsules"] = torch.randn(batch, i, 3, dtype=dtype)
    return arguments


def permuted(name, value, order):
    """What belongs to an input capsule, moved with it."""
    if name in ("presence", "presence_bias"):
        return value[order]
    if name in (
        "log_prior",
        "activations",
        "capsules",
        "routes",
        "similarity",
        "similarity_bias",
        "benefit",
        "cost",
    ):
        return value[:, order]
    if name == "attention":
        return value[:, :, order][:, :, :, order]
    return value


def test_the_zoo_is_complete():
    assert set(NAMES) == {
        "self_attention", "dynamic", "leaky", "em", "variational", "attention", "inverted", "uniform", "optimised",
        "self_routing", "heinsen", "orthogonal_sparse",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_gives_poses_activations_and_coupling(name):
    result = get_routing(name).function(
        torch.randn(2, PARENTS, INPUTS, SIZE, dtype=torch.float64), **arguments_of(name)
    )
    assert result.poses.shape == (2, PARENTS, SIZE)
    assert result.activations.shape == (2, PARENTS)
    assert result.coupling.shape == (2, PARENTS, INPUTS)
    assert 0 <= result.activations.min() <= result.activations.max() <= 1
    assert 0 <= result.coupling.min() <= result.coupling.max() <= 1


@pytest.mark.parametrize("name", NAMES)
def test_coupling_sums_to_one_over_the_stated_axis(name):
    votes = torch.randn(2, PARENTS, INPUTS, SIZE, dtype=torch.float64)
    coupling = get_routing(name).function(votes, **arguments_of(name)).coupling
    total = coupling.sum(dim=2 if name == "attention" else 1)
    if name == "leaky":
        assert 0 < total.min() <= total.max() < 1
    else:
        assert torch.allclose(total, torch.ones_like(total), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_coupling_that_is_given_takes_the_place_of_the_routings_own(name):
    votes, arguments = torch.randn(2, PARENTS, INPUTS, SIZE, dtype=torch.float64), arguments_of(name)
    function = get_routing(name).function
    own = function(votes, **arguments)
    same = function(votes, **arguments, coupling=own.coupling)
    assert torch.allclose(same.poses, own.poses, atol=1e-12, rtol=0)
    assert torch.allclose(same.activations, own.activations, atol=1e-12, rtol=0)
    other = own.coupling.roll(1, dims=1)
    moved = function(votes, **arguments, coupling=other)
    assert torch.equal(moved.coupling, other)
    if name != "uniform":
        assert not torch.allclose(moved.poses, own.poses, atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_order_of_the_input_capsules_does_not_matter(name):
    votes, arguments, order = (
        torch.randn(2, PARENTS, INPUTS, SIZE, dtype=torch.float64),
        arguments_of(name),
        torch.randperm(INPUTS),
    )
    moved = {key: permuted(key, value, order) for key, value in arguments.items()}
    result = get_routing(name).function(votes, **arguments)
    other = get_routing(name).function(votes[:, :, order], **moved)
    assert torch.allclose(other.poses, result.poses, atol=1e-10, rtol=0)
    assert torch.allclose(other.activations, result.activations, atol=1e-10, rtol=0)
    assert torch.allclose(other.coupling, result.coupling[:, :, order], atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_an_image_is_routed_alone(name):
    votes, arguments = torch.randn(4, PARENTS, INPUTS, SIZE, dtype=torch.float64), arguments_of(name, batch=4)
    alone = dict(arguments)
    for key in {"activations", "capsules"} & set(alone):
        alone[key] = alone[key][1:2]
    function = get_routing(name).function
    for whole, one in zip(function(votes, **arguments), function(votes[1:2], **alone), strict=True):
        assert torch.allclose(whole[1:2], one, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_votes_and_of_everything_learned(name):
    arguments = arguments_of(name, batch=1)
    modules = {key: value for key, value in arguments.items() if isinstance(value, nn.Module)}
    keys = [key for key in arguments if key not in modules]

    def call(votes, *values):
        result = get_routing(name).function(votes, **dict(zip(keys, values, strict=True)), **modules)
        return result.poses, result.activations, result.coupling

    inputs = [torch.randn(1, PARENTS, INPUTS, SIZE, dtype=torch.float64), *(arguments[key] for key in keys)]
    assert gradcheck(call, [tensor.requires_grad_() for tensor in inputs])


@pytest.mark.parametrize("name", NAMES)
def test_votes_in_any_memory_layout_give_the_same_gradients(name):
    arguments, gradients = arguments_of(name), []
    values = torch.randn(2, PARENTS, INPUTS, SIZE, dtype=torch.float64)
    for stored in (values, values.transpose(2, 3).contiguous().transpose(2, 3)):
        votes = stored.detach().requires_grad_()
        result = get_routing(name).function(votes, **arguments)
        (result.poses.square().sum() + result.activations.sum()).backward()
        gradients.append(votes.grad)
    assert torch.allclose(*gradients, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [0.0, 1e4])
def test_zero_and_huge_votes_have_finite_results_and_gradients(name, scale):
    arguments = arguments_of(name, 20, 10, 16, dtype=torch.float32)
    leaves = [(scale * torch.randn(2, 10, 20, 16)).requires_grad_()]
    leaves += [a.requires_grad_() for a in arguments.values() if isinstance(a, torch.Tensor)]
    result = get_routing(name).function(leaves[0], **arguments)
    (result.poses.sum() + result.activations.sum() + result.coupling.square().sum()).backward()
    for tensor in (*result, *(leaf.grad for leaf in leaves if leaf.grad is not None)):
        assert tensor.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_float32_agrees_with_float64(name):
    arguments = arguments_of(name, 20, 10, 16)
    votes = torch.randn(2, 10, 20, 16, dtype=torch.float64) + 3
    exact = get_routing(name).function(votes, **arguments)
    low = {k: a.float() for k, a in arguments.items()}
    for one, other in zip(exact, get_routing(name).function(votes.float(), **low), strict=True):
        assert torch.allclose(one, other.double(), atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("name", [n for n in NAMES if get_routing(n).takes("iterations")])
def test_one_iteration_couples_uniformly(name):
    result = get_routing(name).function(
        torch.randn(2, PARENTS, INPUTS, SIZE, dtype=torch.float64), **arguments_of(name), iterations=1
    )
    share = 1 / (PARENTS + 1) if name == "leaky" else 1 / PARENTS
    assert torch.allclose(result.coupling, torch.full_like(result.coupling, share))


@pytest.mark.parametrize("name", NAMES)
def test_every_routing_works_in_a_dense_layer_with_shared_matrices_too(name):
    for shared in (False, True):
        layer = DenseCapsules(6, 8, 4, 16, routing=name, shared=shared)
        result = layer(torch.randn(3, 6, 8))
        (result.poses.sum() + result.activations.sum()).backward()
        assert result.poses.shape == (3, 4, 16)
        assert layer.weight.grad.isfinite().all()


def test_unknown_option_lists_the_known_ones():
    with pytest.raises(
        CapsNetError, match="Routing 'dynamic' has no option 'steps'; its options: iterations, leaky, squash"
    ):
        DenseCapsules(6, 8, 4, 16, routing="dynamic", steps=3)


def scalar(result):
    """One number that depends on everything that a routing gives, and in no linear way."""
    poses, activations, coupling = result
    return poses.square().sum() + activations.sin().sum() + coupling.pow(3).sum()


def layer_and_capsules(name):
    layer = DenseCapsules(INPUTS, 3, PARENTS, SIZE, routing=name).double().eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer, torch.randn(4, INPUTS, 3, dtype=torch.float64)


@pytest.mark.parametrize("name", NAMES)
def test_function_transforms_give_the_gradients_of_autograd(name):
    layer, capsules = layer_and_capsules(name)
    leaf = capsules.clone().requires_grad_()
    expected = torch.autograd.grad(scalar(layer(leaf)), (leaf, layer.weight))
    found = torch.func.grad(lambda c: scalar(layer(c)))(capsules)
    torch.testing.assert_close(found, expected[0], rtol=1e-9, atol=1e-9)
    of_weight = torch.func.grad(
        lambda w: scalar(torch.func.functional_call(layer, {"weight": w}, (capsules,)))
    )(layer.weight.detach())
    torch.testing.assert_close(of_weight, expected[1], rtol=1e-9, atol=1e-9)
    one_by_one = torch.func.vmap(torch.func.grad(lambda c: scalar(layer(c.unsqueeze(0)))))(capsules)
    torch.testing.assert_close(one_by_one, expected[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_vmap_over_images_gives_what_a_batch_gives(name):
    layer, capsules = layer_and_capsules(name)
    batch = layer(capsules)
    for whole, one in zip(batch, torch.func.vmap(lambda c: layer(c.unsqueeze(0)))(capsules), strict=True):
        torch.testing.assert_close(one.squeeze(1), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_gradients_are_right(name):
    layer, capsules = layer_and_capsules(name)
    assert gradgradcheck(lambda c: tuple(layer(c)), capsules[:1].requires_grad_())


@pytest.mark.parametrize("name", NAMES)
def test_a_gradient_penalty_reaches_every_matrix(name):
    layer, capsules = layer_and_capsules(name)
    capsules.requires_grad_()
    (slope,) = torch.autograd.grad(scalar(layer(capsules)), capsules, create_graph=True)
    slope.square().sum().backward()
    assert layer.weight.grad.isfinite().all()
    assert (layer.weight.grad.flatten(1).abs().sum(dim=1) > 0).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_gives_the_same_gradients(name, reentrant):
    layer, capsules = layer_and_capsules(name)
    gradients = []
    for call in (layer, lambda c: checkpoint(layer, c, use_reentrant=reentrant)):
        leaf = capsules.clone().requires_grad_()
        scalar(call(leaf)).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_chosen_class_is_the_most_active_or_none_that_poses_tell(name):
    layer, capsules = layer_and_capsules(name)
    result = layer(capsules)
    if name in ("em", "variational", "self_routing"):
        with pytest.raises(CapsNetError, match="poses do not tell which capsule is the most active"):
            layer.routing.choose(result.poses)
    else:
        assert torch.equal(layer.routing.choose(result.poses), result.activations.argmax(dim=1))


@pytest.mark.parametrize("name", NAMES)
def test_efficient_capsnet_overfits_32_images_with_every_routing(name):
    model = create_model("efficient_capsnet", (1, 20, 20), 4, routing=name, decoder=False)
    images, classes = torch.rand(32, 1, 20, 20), torch.arange(32) % 4
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(12):
        output = model(images)
        loss = model.classification_loss(output, torch.eye(4)[classes])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert (output.scores.argmax(dim=1) == classes).all()


def test_every_routing_compiles_without_graph_breaks_to_the_same_gradients():
    """In a process of its own: the shape checks of conftest.py would break the compiler's graphs."""
    program = f"""
        import torch
        from capsnet.layers import DenseCapsules
        for name in {NAMES!r}:
            layer, capsules = DenseCapsules(6, 8, 4, 16, routing=name), torch.randn(3, 6, 8)
            torch._dynamo.reset()
            results = []
            for function in (layer, torch.compile(layer, fullgraph=True, backend="eager")):
                layer.zero_grad()
                result = function(capsules)
                (result.poses.square().sum() + result.activations.sum()).backward()
                results.append([result.poses, result.activations, result.coupling, layer.weight.grad.clone()])
            for one, other in zip(*results):
                assert torch.allclose(one, other, atol=1e-4), name
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], check=True, timeout=600)
