"""Properties of every registered model: registering one tests it."""

import copy
import math
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch

from capsnet import create_model, list_models
from capsnet.errors import CapsNetError
from capsnet.functional import reconstruction_loss

# name -> parameters of the encoder and of the decoder, with the paper's image shape and classes.
COUNTS = {
    "ar_capsnet": (4_483_328, 829_200),
    "base_capsnet": (183_128, 1_411_344),
    "capsnet": (6_804_384, 1_411_344),
    "cnn_hinton": (4_253_349, 0),
    "cnn_sabour": (35_445_522, 0),
    "cnn_small": (173_138, 1_427_728),
    "da_capsnet": (6_979_960, 1_411_344),
    "efficient_capsnet": (161_824, 1_411_344),
    "efficient_capsnet_multimnist": (154_656, 1_936_144),
    "efficient_capsnet_smallnorb": (151_664, 229_570),
    "hfc": (1_514_187, 0),
    "matrix_capsnet": (316_650, 0),
    "mixture": (2 * 183_128, 1_411_344),
    "residual_capsnet": (2_006_872, 0),
    "vb_capsnet": (316_810, 0),
}

MODELS = list_models()


def loss_of(model, images):
    """A training step's loss: the paper's classification loss and, with a decoder, the reconstruction's."""
    output = model(images)
    classes = torch.arange(len(images)) % output.scores.shape[1]
    targets = torch.nn.functional.one_hot(classes, output.scores.shape[1]).float()
    loss = model.classification_loss(output, targets)
    if model.decoder is not None:
        loss = loss + 0.392 * reconstruction_loss(model.reconstruct(output.poses, classes), images)
    return loss


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_counted_as_in_the_papers(name):
    with torch.device("meta"):
        model = create_model(name)
    encoder = sum(p.numel() for p in model.encoder.parameters())
    decoder = sum(p.numel() for p in model.decoder.parameters()) if model.decoder is not None else 0
    assert (encoder, decoder) == COUNTS[name]


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_gets_a_gradient(name, small_model):
    model = small_model(name)
    loss_of(model, torch.rand(4, *model.image_shape)).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.count_nonzero(parameter.grad) > 0, parameter_name


@pytest.mark.parametrize("name", MODELS)
def test_an_image_is_judged_alone_in_eval_mode(name, small_model):
    model = small_model(name).eval()
    images = torch.rand(3, *model.image_shape)
    together, alone = model(images), model(images[1:2])
    assert together.scores.shape == (3, model.architecture.num_classes)
    assert torch.allclose(together.scores[1:2], alone.scores, atol=1e-5)
    assert torch.allclose(together.poses[1:2], alone.poses, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_between_zero_and_one(name, small_model):
    model = small_model(name)
    scores = model(torch.rand(3, *model.image_shape)).scores
    assert 0 <= scores.min() <= scores.max() <= 1


@pytest.mark.parametrize("name", MODELS)
def test_deepcopy_gives_an_equal_and_independent_model(name, small_model):
    model = small_model(name).eval()
    copied = copy.deepcopy(model)
    images = torch.rand(2, *model.image_shape)
    before = model(images).scores
    assert torch.equal(copied(images).scores, before)
    assert copied.architecture == model.architecture
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1)
    assert torch.equal(model(images).scores, before)


@pytest.mark.parametrize("name", MODELS)
def test_wrong_image_shape_is_refused_with_both_shapes(name, small_model):
    model = small_model(name)
    channels, height, width = model.image_shape
    message = f"takes images of shape {channels}x{height}x{width}; got {channels}x{height + 1}x{width}."
    with pytest.raises(CapsNetError, match=message):
        model(torch.rand(2, channels, height + 1, width))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scale", [0.0, 1e4])
def test_all_zero_and_huge_images_have_finite_gradients(name, scale, small_model):
    model = small_model(name)
    loss = loss_of(model, scale * torch.rand(4, *model.image_shape))
    loss.backward()
    assert math.isfinite(loss.item())
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all(), parameter_name


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_model(name, small_model):
    models = []
    for _ in range(2):
        torch.manual_seed(7)
        models.append(small_model(name))
    for one, other in zip(*(m.state_dict().values() for m in models), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", MODELS)
def test_an_unknown_option_is_refused_with_the_known_ones(name):
    with pytest.raises(
        CapsNetError, match=f"Model '{name}'.* has no option 'colour'; its options: .*decoder"
    ):
        create_model(name, colour=1)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("efficient_capsnet", {"iterations": 2}, "with routing 'self_attention' has no option 'iterations'"),
        ("efficient_capsnet", {"first_kernel": 7}, "has no option 'first_kernel'"),
        ("efficient_capsnet", {"in_size": 7}, "has no option 'in_size'"),
        ("efficient_capsnet_smallnorb", {"strides": (1, 1, 1, 1)}, "has no option 'strides'"),
        ("capsnet", {"routing": "uniform", "leaky": True}, "with routing 'uniform' has no option 'leaky'"),
        ("capsnet", {"leaky": "yes"}, "leaky is true or false, not 'yes'"),
        ("capsnet", {"bias": "no"}, "bias is true or false, not 'no'"),
        ("capsnet", {"channels": 2.5}, "channels is a whole number from 1 up, not 2.5"),
        ("cnn_small", {"dropout": "much"}, "dropout is a number from 0 to 1, not 'much'"),
        ("cnn_sabour", {"dropout": 2}, "dropout is a number from 0 to 1, not 2"),
        ("ar_capsnet", {"dropout": -0.1}, "dropout is a number from 0 to 1, not -0.1"),
    ],
)
def test_options_that_neither_model_nor_routing_take_are_refused(name, options, sentence):
    with pytest.raises(CapsNetError, match=sentence):
        create_model(name, **options)


def run_without_shape_checks(program):
    """In a process of its own: the shape checks of conftest.py would break the compiler's graphs."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], check=True, timeout=600)


def test_compiles_without_graph_breaks_to_the_same_outputs(small_options):
    run_without_shape_checks(
        f"""
        import torch
        from capsnet import create_model
        torch.set_num_threads(1)
        small = {small_options!r}
        for name in {MODELS!r}:
            model = create_model(name, **small.get(name, {{}})).eval()
            images = torch.rand(2, *model.image_shape)
            torch._dynamo.reset()
            compiled = torch.compile(model, fullgraph=True, backend="eager")
            expected, got = model(images, coupling=True), compiled(images, coupling=True)
            for one, other in zip(expected, got):
                assert (one is None and other is None) or torch.allclose(one, other, atol=1e-6), name
        """
    )


@pytest.mark.skipif(
    shutil.which(os.environ.get("CXX") or "g++") is None, reason="torch.compile needs a C++ compiler"
)
def test_compiled_efficient_capsnet_trains_alike():
    run_without_shape_checks(
        """
        import torch
        from capsnet import create_model
        torch.set_num_threads(1)
        model = create_model("efficient_capsnet", decoder=False)
        images = torch.rand(2, 1, 28, 28)
        compiled = torch.compile(model, fullgraph=True)
        gradients = []
        for function in (model, compiled):
            model.zero_grad()
            function(images).scores.square().sum().backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        for one, other in zip(*gradients):
            assert torch.allclose(one, other, atol=1e-4, rtol=1e-3), (one - other).abs().max()
        """
    )
