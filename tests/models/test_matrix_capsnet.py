"""Matrix-CapsNet with EM routing and its variational sister."""

import pytest
import torch

from capsnet import create_model
from capsnet.data import load_dataset
from capsnet.errors import CapsNetError
from capsnet.functional import spread_loss

NAMES = ("matrix_capsnet", "vb_capsnet")
TINY = {"image_shape": (1, 18, 18), "num_classes": 4, "types": (16, 4, 4, 4)}


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def digits(images, shape):
    """The first zeros, ones, twos and threes of MNIST, cut to size."""
    split = load_dataset("mnist").train
    chosen = [(split.labels == digit).nonzero().flatten()[: images // 4] for digit in range(4)]
    pictures = split.images[torch.stack(chosen, dim=1).flatten()].float() / 255
    pictures = pictures[:, :, 4 : 4 + shape[1], 4 : 4 + shape[2]].expand(-1, shape[0], -1, -1)
    return pictures, torch.arange(images) % 4


def train(model, steps, *, images=32, learning_rate=3e-3):
    """Steps on the same images; the last output and the classes it should have found."""
    pictures, classes = digits(images, model.image_shape)
    targets = torch.eye(model.architecture.num_classes)[classes]
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate, weight_decay=2e-7)
    for step in range(steps):
        output = model(pictures)
        loss = model.classification_loss(output, targets, progress=step / steps)
        assert loss.isfinite(), step
        optimiser.zero_grad()
        loss.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad.isfinite().all(), (step, name)
        optimiser.step()
    return output, classes


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 316_650),
        ({"image_shape": (1, 28, 28), "num_classes": 10}, 318_420),
        ({"types": (64, 8, 16, 16)}, 68_618),
    ],
)
def test_parameters_of_the_papers_variants(options, count):
    assert parameters(create_model("matrix_capsnet", **options).encoder) == count


def test_a_layer_without_types_is_refused():
    with pytest.raises(CapsNetError, match="types are four whole numbers"):
        create_model("matrix_capsnet", types=(8, 8, 8, 0))


@pytest.mark.parametrize("name", NAMES)
def test_maps_are_the_papers(name):
    encoder = create_model(name, types=(4, 4, 4, 4)).encoder
    features = encoder.features(torch.rand(2, 2, 32, 32))
    assert features.shape == (2, 4, 14, 14)
    capsules = encoder.primary(features)
    assert capsules[0].shape == (2, 4, 16, 14, 14)
    capsules = encoder.middle(*capsules)
    assert capsules[0].shape == (2, 4, 16, 6, 6)
    capsules = encoder.last(*capsules)
    assert capsules[0].shape == (2, 4, 16, 4, 4)
    assert encoder.classes(*capsules).poses.shape == (2, 5, 16)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(1, 17, 17), (3, 23, 40)])
def test_takes_other_images_and_classes(name, shape):
    model = create_model(name, shape, 7, types=(4, 2, 2, 2))
    output = model(torch.rand(2, *shape), coupling=True)
    assert output.poses.shape == (2, 7, 16)
    assert torch.allclose(output.coupling.sum(dim=1), torch.ones_like(output.coupling[:, 0]), atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_too_small_an_image_is_refused(name):
    with pytest.raises(CapsNetError, match="takes images of 17 pixels a side or more; got 16x32"):
        create_model(name, (1, 16, 32))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_no_nan_in_training(name, scale):
    model = create_model(name, **TINY)
    with torch.no_grad():
        model.encoder.middle.weight.mul_(scale)  # votes far apart: hard assignments, empty clusters
    train(model, 15, images=4, learning_rate=3e-2)


@pytest.mark.parametrize("name", NAMES)
def test_overfits_32_images(name):
    model = create_model(name, (1, 20, 20), 4, types=(16, 8, 8, 8))
    if name == "vb_capsnet":
        with torch.no_grad():
            model.encoder.classes.weight.mul_(0.3)  # as small as with the 32 types of the whole network
    output, classes = train(model, 40, learning_rate=1e-2 if name == "matrix_capsnet" else 3e-3)
    assert (output.scores.argmax(dim=1) == classes).float().mean() >= 0.9


def test_the_margin_grows_with_the_training():
    model = create_model("matrix_capsnet", **TINY)
    output, targets = model(torch.rand(4, 1, 18, 18)), torch.eye(4)
    for progress, margin in ((0.0, 0.2), (0.5, 0.55), (1.0, 0.9)):
        loss = model.classification_loss(output, targets, progress=progress)
        assert loss.item() == pytest.approx(spread_loss(output.scores, targets, margin=margin).item())


def test_variational_loss_is_the_cross_entropy_of_the_logits():
    model = create_model("vb_capsnet", **TINY)
    output = model(torch.rand(4, 1, 18, 18))
    expected = -output.logits.log_softmax(dim=1).diagonal().mean()
    assert model.classification_loss(output, torch.eye(4)).item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(output.logits.sigmoid(), output.scores, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_nan_in_two_thousand_steps(name):
    train(create_model(name, **TINY), 2000, images=8)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_whole_network_trains(name):
    train(create_model(name, (2, 20, 20)), 2, images=4)
