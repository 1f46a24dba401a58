import math
import re

import pytest
import torch
from torch.autograd import gradcheck

from capsnet.errors import CapsNetError
from capsnet.functional import compute_shared_votes, compute_votes, self_attention_routing, squash_sabour
from capsnet.layers import DenseCapsules


def test_is_the_routing_of_the_votes():
    layer, capsules = DenseCapsules(6, 8, 4, 16), torch.randn(3, 6, 8)
    torch.nn.init.normal_(layer.routing.log_prior)
    expected = self_attention_routing(
        compute_votes(capsules, layer.weight), layer.routing.log_prior, dimension=16
    )
    for got, want in zip(layer(capsules), expected, strict=True):
        assert torch.equal(got, want)


def test_scale_says_whose_size_goes_under_the_root():
    capsules = torch.randn(3, 6, 8)
    layer = DenseCapsules(6, 8, 4, 16, scale="input")
    votes = compute_votes(capsules, layer.weight)
    expected = self_attention_routing(votes, layer.routing.log_prior, dimension=8)
    assert torch.equal(layer(capsules).coupling, expected.coupling)


def test_squash_is_chosen_by_name():
    layer, capsules = DenseCapsules(6, 8, 4, 16, squash="sabour"), torch.randn(3, 6, 8)
    votes = compute_votes(capsules, layer.weight)
    expected = self_attention_routing(votes, layer.routing.log_prior, squash=squash_sabour)
    assert torch.equal(layer(capsules).poses, expected.poses)


def test_shared_matrices_are_one_for_each_parent():
    layer, capsules = DenseCapsules(6, 8, 4, 16, shared=True), torch.randn(3, 6, 8)
    assert layer.weight.shape == (4, 8, 16)
    repeated = layer.weight.unsqueeze(1).expand(-1, 6, -1, -1)
    votes = compute_shared_votes(capsules, layer.weight)
    assert torch.allclose(votes, compute_votes(capsules, repeated), atol=1e-6)
    expected = self_attention_routing(votes, layer.routing.log_prior)
    assert torch.equal(layer(capsules).poses, expected.poses)


def test_bias_is_learned_where_asked_for():
    layer = DenseCapsules(6, 8, 4, 16, routing="dynamic", bias=True)
    assert torch.equal(layer.routing.bias, torch.zeros(4, 16))
    assert not hasattr(DenseCapsules(6, 8, 4, 16, routing="dynamic").routing, "bias")
    layer(torch.randn(3, 6, 8)).activations.sum().backward()
    assert torch.count_nonzero(layer.routing.bias.grad) > 0


def test_activations_default_to_the_lengths_of_the_inputs():
    layer, capsules = DenseCapsules(6, 8, 4, 16, routing="em"), torch.randn(3, 6, 8)
    assert torch.equal(
        layer(capsules).poses, layer(capsules, (capsules.square().sum(-1) + 1e-7).sqrt()).poses
    )
    assert not torch.equal(layer(capsules).poses, layer(capsules, torch.rand(3, 6)).poses)


@pytest.mark.parametrize(("classes", "std"), [(10, 0.0395), (5, 0.0559)])
def test_initial_values_are_truncated_normal_with_the_authors_deviation(classes, std):
    weight = DenseCapsules(16, 8, classes, 16).weight
    assert weight.std().item() == pytest.approx(std, rel=2e-2)
    assert weight.abs().max().item() <= 2 * math.sqrt(2 / (classes * 16 * 8)) / 0.8796 * 1.0001


def test_log_priors_start_at_zero_with_one_for_each_pair():
    log_prior = DenseCapsules(6, 8, 4, 16).routing.log_prior
    assert torch.equal(log_prior, torch.zeros(4, 6))


def test_a_capsule_depends_on_its_own_image_only():
    layer, capsules = DenseCapsules(6, 8, 4, 16), torch.randn(5, 6, 8)
    for whole, alone in zip(layer(capsules), layer(capsules[1:2]), strict=True):
        assert torch.allclose(whole[1:2], alone, atol=1e-6)


def test_order_of_the_input_capsules_with_their_weights_does_not_matter():
    layer, capsules, order = DenseCapsules(6, 8, 4, 16), torch.randn(2, 6, 8), torch.randperm(6)
    before = layer(capsules).poses
    with torch.no_grad():
        layer.weight.copy_(layer.weight[:, order])
    assert torch.allclose(layer(capsules[:, order]).poses, before, atol=1e-6)


def test_gradients():
    layer = DenseCapsules(3, 2, 2, 3).double()
    capsules = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: tuple(layer(x)), capsules)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"routing": "self_atention"},
            r"There is no routing 'self_atention'; did you mean 'self_attention'\?",
        ),
        ({"scale": "both"}, "scale is 'output' or 'input', not 'both'."),
        ({"squash": "hard"}, "There is no squash 'hard'; there are: "),
        (
            {"routing": "dynamic", "scale": "input"},
            "Routing 'dynamic' takes no scale.",
        ),
        ({"routing": "dynamic", "iterations": 0}, "iterations is a whole number from 1 up, not 0."),
        ({"bias": True}, "Routing 'self_attention' takes no bias."),
        ({"iterations": 3}, "Routing 'self_attention' has no option 'iterations'; its options: "),
    ],
)
def test_wrong_options_are_refused_by_name(options, message):
    with pytest.raises(CapsNetError, match=message):
        DenseCapsules(6, 8, 4, 16, **options)


@pytest.mark.parametrize("routing", ["self_attention", "dynamic"])
def test_routing_keeps_float32_under_autocast(routing):
    layer, capsules = DenseCapsules(6, 8, 5, 16, routing=routing), torch.randn(3, 6, 8)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = layer(capsules)
    for ours, expected in zip(mixed, layer(capsules), strict=True):
        assert ours.dtype == torch.float32
        assert torch.equal(ours, expected)


@pytest.mark.parametrize(
    ("routing", "options", "sentence"),
    [
        ("em", {"steepness": "hi"}, "steepness is a number, not 'hi'."),
        ("em", {"variance_floor": float("nan")}, "variance_floor is a number, not nan."),
        ("self_attention", {"dimension": "x"}, "dimension is a whole number from 1 up, not 'x'."),
        ("dynamic", {"iterations": 0}, "iterations is a whole number from 1 up, not 0."),
        ("dynamic", {"iterations": True}, "iterations is a whole number from 1 up, not True."),
    ],
)
def test_an_option_of_the_wrong_kind_is_one_sentence(routing, options, sentence):
    with pytest.raises(CapsNetError, match=sentence):
        DenseCapsules(6, 8, 5, 16, routing=routing, **options)


def test_em_refuses_a_floor_below_zero():
    with pytest.raises(CapsNetError, match="steepness and variance_floor are numbers above 0"):
        DenseCapsules(6, 8, 5, 16, routing="em", variance_floor=-1.0)(torch.rand(1, 6, 8))


@pytest.mark.parametrize("routing", ["self_attention", "variational"])
def test_a_state_with_the_former_names_is_loaded(routing):
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([DenseCapsules(6, 8, 5, 16, routing=routing)])

    def formerly(name):
        name = re.sub(r"routing\.(pose_norm|activation_norm)", r"routing_modules.\1", name)
        return re.sub(r"routing\.(log_prior|beta)", r"routing_parameters.\1", name)

    network, other = Network(), Network()
    for tensor in network.state_dict().values():
        tensor.copy_(torch.randn(tensor.shape))
    former = {formerly(name): tensor for name, tensor in network.state_dict().items()}
    assert former.keys() != network.state_dict().keys()
    other.load_state_dict(former)
    for one, loaded in zip(*(n.state_dict().values() for n in (network, other)), strict=True):
        assert torch.equal(one, loaded)


@pytest.mark.parametrize(("shared", "ends"), [(False, r"\(6, 8\)"), (True, r"\(8,\)")])
def test_capsules_of_another_number_or_size_are_refused_with_what_is_taken(shared, ends):
    layer = DenseCapsules(6, 8, 5, 16, shared=shared)
    with pytest.raises(CapsNetError, match=rf"whose shape ends in {ends}; got \(2, 7, 9\)"):
        layer(torch.rand(2, 7, 9))
