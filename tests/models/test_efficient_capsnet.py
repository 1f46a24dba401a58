import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from capsnet import create_model
from capsnet.errors import CapsNetError
from capsnet.models.efficient_capsnet import fitting_strides, last_map


def parameters(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("name", "maps", "kernel"),
    [
        ("efficient_capsnet", [(24, 24), (22, 22), (20, 20), (9, 9)], (9, 9)),
        ("efficient_capsnet_smallnorb", [(21, 21), (19, 19), (17, 17), (8, 8)], (8, 8)),
        ("efficient_capsnet_multimnist", [(32, 32), (30, 30), (14, 14), (6, 6)], (5, 5)),
    ],
)
def test_feature_maps_are_the_papers(name, maps, kernel):
    model = create_model(name)
    features, got = torch.randn(1, *model.image_shape), []
    for block in model.encoder.blocks:
        features = block(features)
        got.append(tuple(features.shape[2:]))
    assert got == maps
    assert model.encoder.primary.depthwise.kernel_size == kernel
    assert model.encoder.primary(features).shape == (1, 16, 8)


def test_blocks_normalise_after_the_activation():
    block = create_model("efficient_capsnet").encoder.blocks[1]
    maps = torch.randn(4, 32, 8, 8)
    activated = torch.nn.functional.conv2d(maps, block.conv.weight, block.conv.bias).relu()
    mean, variance = activated.mean(dim=(0, 2, 3)), activated.var(dim=(0, 2, 3), unbiased=False)
    expected = (activated - mean[:, None, None]) / (variance[:, None, None] + 1e-3).sqrt()
    assert torch.allclose(block(maps), expected, atol=1e-5)
    assert torch.allclose(block.norm.running_mean, 0.01 * mean, atol=1e-6)


def test_convolutions_start_he_normal_and_normalisations_as_the_authors():
    for name in ("efficient_capsnet", "efficient_capsnet_smallnorb"):
        for block in create_model(name).encoder.blocks:
            std = math.sqrt(2 / block.conv.weight[0].numel())
            assert block.conv.weight.std().item() == pytest.approx(std, rel=0.07)
            assert block.conv.weight.abs().max().item() <= 2 * std / 0.8796 * 1.0001
            assert torch.count_nonzero(block.conv.bias) == 0
            assert block.norm.eps == 1e-3
    for values in (block.norm.weight, block.norm.bias):  # the last: instance normalisation
        assert 0.04 < values.abs().max() <= 0.05


@settings(max_examples=12)
@given(
    channels=st.integers(1, 7),
    height=st.integers(20, 256),
    width=st.integers(20, 256),
    classes=st.integers(2, 120),
)
def test_takes_any_image_shape_and_any_number_of_classes(channels, height, width, classes):
    model = create_model("efficient_capsnet", (channels, height, width), classes, decoder=False).eval()
    output = model(torch.randn(1, channels, height, width))
    assert output.poses.shape == (1, classes, 16)
    assert output.scores.shape == (1, classes)
    kernel = model.encoder.primary.depthwise.kernel_size
    assert 5 <= min(kernel) <= max(kernel) <= 12


def test_every_side_from_19_to_444_leaves_a_map_of_5_to_12_pixels():
    kernels = (5, 3, 3, 3)
    for side in range(19, 445):
        assert 5 <= last_map(side, kernels, fitting_strides(side, kernels)) <= 12


@pytest.mark.parametrize("side", [18, 445])
def test_images_too_small_or_too_large_are_refused(side):
    with pytest.raises(CapsNetError, match=f"takes images of 19 to 444 pixels a side; got {side}."):
        create_model("efficient_capsnet", (1, 28, side))


def test_image_smaller_than_the_fixed_strides_allow_is_refused():
    with pytest.raises(
        CapsNetError, match="An image of 20x36 pixels is too small for this network's convolutions"
    ):
        create_model("efficient_capsnet_multimnist", (1, 20, 36))


def test_extra_capsule_layers_go_between_primary_and_class_capsules():
    model = create_model("efficient_capsnet", decoder=False, capsule_layers=((12, 10), (6, 14)))
    shapes = [tuple(layer.weight.shape) for layer in model.encoder.capsules]
    assert shapes == [(12, 16, 8, 10), (6, 12, 10, 14), (10, 6, 14, 16)]
    output = model(torch.randn(2, 1, 28, 28), coupling=True)
    assert output.poses.shape == (2, 10, 16)
    assert output.coupling.shape == (2, 10, 6)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
@pytest.mark.parametrize("norm", ["batch", "instance"])
def test_activation_and_norm_are_options(activation, norm):
    model = create_model("efficient_capsnet", decoder=False, activation=activation, norm=norm)
    assert parameters(model.encoder) == 161_824
    assert model(torch.randn(2, 1, 28, 28)).scores.shape == (2, 10)


def test_the_smallnorb_network_s_assumptions_are_options():
    names = {"activation": "relu", "norm": "batch"}
    model = create_model("efficient_capsnet_smallnorb", decoder=False, **names)
    assert parameters(model.encoder) == 151_664
    assert isinstance(model.encoder.blocks[0].norm, torch.nn.BatchNorm2d)
    assert isinstance(model.encoder.blocks[0].activation, torch.nn.ReLU)
    mixed = create_model("efficient_capsnet_smallnorb", decoder=False, norm="mixed")
    assert parameters(mixed.encoder) == 151_664 + 32 + 64 + 64 + 128, "a share for each channel"
    positional = create_model(
        "efficient_capsnet_smallnorb", decoder=False, primary_kernel=6, primary_stride=2
    )
    assert positional(torch.randn(2, 2, 48, 48), coupling=True).coupling.shape == (2, 5, 4 * 16)


def test_scale_changes_the_coupling():
    output = create_model("efficient_capsnet", scale="output")
    paper = create_model("efficient_capsnet", scale="input")
    paper.load_state_dict(output.state_dict())
    images = torch.randn(2, 1, 28, 28)
    assert not torch.allclose(output(images, coupling=True).coupling, paper(images, coupling=True).coupling)


def test_coupling_is_given_when_asked_for_only():
    model, images = create_model("efficient_capsnet"), torch.randn(2, 1, 28, 28)
    assert model(images).coupling is None
    coupling = model(images, coupling=True).coupling
    assert coupling.shape == (2, 10, 16)
    assert torch.allclose(coupling.sum(dim=1), torch.ones(2, 16))


def test_reconstructs_the_best_scored_class_unless_told_otherwise():
    model = create_model("efficient_capsnet").eval()
    output = model(torch.randn(3, 1, 28, 28))
    best = output.scores.argmax(dim=1)
    images = model.reconstruct(output.poses)
    assert images.shape == (3, 1, 28, 28)
    assert torch.equal(images, model.reconstruct(output.poses, best))
    assert not torch.equal(images, model.reconstruct(output.poses, (best + 1) % 10))


def test_without_decoder_there_is_no_reconstruction():
    model = create_model("efficient_capsnet", decoder=False)
    assert model.decoder is None
    with pytest.raises(CapsNetError, match="This model has no decoder, so it cannot reconstruct"):
        model.reconstruct(torch.zeros(1, 10, 16))


def test_smallnorb_network_takes_a_dense_decoder_for_other_sizes():
    model = create_model("efficient_capsnet_smallnorb", (1, 40, 44), decoder="dense")
    assert model.reconstruct(model(torch.randn(2, 1, 40, 44)).poses).shape == (2, 1, 40, 44)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "tanh"}, "activation is 'relu' or 'leaky_relu', not 'tanh'."),
        ({"norm": "layer"}, "norm is 'batch', 'instance' or 'mixed', not 'layer'."),
        ({"decoder": "deep"}, "decoder is True, False, 'dense' or 'conv', not 'deep'."),
        ({"decoder": "conv"}, "The convolutional decoder makes 48x48 images, not 28x28"),
        (
            {"image_shape": (28, 28)},
            r"image_shape is \(channels, height, width\), each at least 1; got \(28, 28\).",
        ),
        ({"num_classes": 1}, "A classifier needs at least 2 classes; got 1."),
        ({"routing": "dynamik"}, "There is no routing 'dynamik'; "),
    ],
)
def test_wrong_options_are_refused_by_name(options, message):
    with pytest.raises(CapsNetError, match=message):
        create_model("efficient_capsnet", **options)


def test_unknown_model_names_the_nearest():
    with pytest.raises(
        CapsNetError, match=r"There is no model 'eficient_capsnet'; did you mean 'efficient_capsnet'\?"
    ):
        create_model("eficient_capsnet")
