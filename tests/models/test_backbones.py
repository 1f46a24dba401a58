"""Capsules on any backbone: modules, registered names, what is refused, and what a weights folder can keep."""

import pytest
import torch
from torch import nn

import capsnet
from capsnet.errors import CapsNetError
from capsnet.models import register_backbone
from capsnet.models.backbones import _BACKBONES, feature_shape
from capsnet.models.residual_capsnet import PatchStem, ResidualBackbone, cosines


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 24, 5, stride=3), nn.BatchNorm2d(24), nn.ReLU(), nn.Dropout(0.5))


def on_backbone(backbone, **options):
    return capsnet.create_model("efficient_capsnet", (3, 32, 40), 7, backbone=backbone, **options)


def test_capsules_fit_the_feature_maps_of_any_module():
    backbone = convolutions()
    model = on_backbone(backbone, capsule_layers=((5, 8),))
    assert model.encoder.backbone is backbone
    assert model.encoder.head.primary.depthwise.weight.shape == (24, 1, 10, 12)
    images = torch.rand(2, 3, 32, 40)
    output = model(images, coupling=True)
    assert output.poses.shape == (2, 7, 16)
    assert output.coupling.shape == (2, 7, 5)
    assert model.reconstruct(output.poses).shape == images.shape
    output.scores.sum().backward()
    assert all(p.grad is not None for p in model.encoder.parameters())


def test_asking_for_the_feature_shape_changes_nothing():
    backbone = convolutions()
    before = {name: t.clone() for name, t in backbone.state_dict().items()}
    state = torch.get_rng_state()
    assert feature_shape(backbone, (3, 32, 40)) == (24, 10, 12)
    assert backbone.training
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(t, before[name]) for name, t in backbone.state_dict().items())


def test_it_trains_on_a_few_images():
    torch.manual_seed(0)
    model = on_backbone(nn.Sequential(nn.Conv2d(3, 16, 8, stride=4), nn.ReLU()), decoder=False)
    images, targets = torch.rand(14, 3, 32, 40), torch.eye(7).repeat(2, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(80):
        loss = model.classification_loss(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert model(images).scores.argmax(dim=1).tolist() == targets.argmax(dim=1).tolist()


@pytest.mark.parametrize(
    ("backbone", "sentence"),
    [
        (nn.Sequential(nn.Conv2d(1, 8, 3)), "The backbone does not take images of 3x32x40"),
        (
            nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten()),
            r"gives shape \(1, 9120\): leave out its pooling and its class",
        ),
        (nn.Conv2d(3, 12, 3), "12 channels do not divide"),
        ("residul", "no backbone 'residul'; did you mean 'residual'"),
    ],
)
def test_what_makes_no_feature_maps_is_refused(backbone, sentence):
    with pytest.raises(CapsNetError, match=sentence):
        on_backbone(backbone)


def test_the_options_of_the_papers_convolutions_are_refused_with_a_backbone():
    with pytest.raises(CapsNetError, match="a backbone has its own"):
        on_backbone(convolutions(), norm="instance")


def test_a_model_with_a_module_cannot_be_saved_and_says_why(tmp_path):
    with pytest.raises(CapsNetError, match=r"backbone is a module \(Sequential\).*register_backbone"):
        capsnet.save(on_backbone(convolutions()), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_model_with_a_registered_backbone_is_saved_and_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr("capsnet.models.backbones._BACKBONES", dict(_BACKBONES))

    @register_backbone
    def three_steps(image_shape):
        return nn.Conv2d(image_shape[0], 8, 3, stride=3)

    model = on_backbone("three_steps", decoder=False).eval()
    capsnet.save(model, tmp_path / "weights")
    images = torch.rand(2, 3, 32, 40)
    assert torch.equal(capsnet.load(tmp_path / "weights")(images).scores, model(images).scores)


def test_the_registered_system_is_its_backbone_under_the_papers_capsules():
    torch.manual_seed(0)
    system = capsnet.create_model("residual_capsnet", (3, 32, 40), 7)
    torch.manual_seed(0)
    same = on_backbone("residual", decoder=False)
    assert system.state_dict().keys() == same.state_dict().keys()
    images = torch.rand(1, 3, 32, 40)
    assert torch.equal(system.eval()(images).scores, same.eval()(images).scores)


def test_cosines_are_orthonormal():
    for n in (1, 2, 3, 8):
        assert torch.allclose(cosines(n) @ cosines(n).T, torch.eye(n), atol=1e-6)


@torch.no_grad()
def test_the_stem_keeps_all_of_a_picture_and_separates_what_is_constant():
    stem = PatchStem(3, 4, 4).eval()
    images = torch.rand(2, 3, 16, 16)
    coefficients = stem(images)
    assert coefficients.shape == (2, 48, 4, 4)
    assert float(coefficients.square().sum()) == pytest.approx(float(images.square().sum()), rel=1e-3)
    smooth = torch.rand(64, 3, 4, 4).repeat_interleave(4, 2).repeat_interleave(4, 3)
    changing = [n for n in range(48) if n % 16]  # nothing changes inside a patch
    assert float(stem(smooth)[:, changing].abs().max()) < 1e-5


@pytest.mark.parametrize(("side", "maps"), [(16, 1), (28, 3), (32, 3), (48, 5), (64, 4), (100, 6), (224, 7)])
def test_maps_stay_small_for_pictures_of_any_size(side, maps):
    with torch.device("meta"):
        backbone = ResidualBackbone((3, side, side), (8, 8, 8))
        assert feature_shape(backbone, (3, side, side)) == (8, maps, maps)


def test_pictures_too_small_for_its_stages_are_refused():
    with pytest.raises(CapsNetError, match="at least 16 pixels a side; got 15x32"):
        capsnet.create_model("residual_capsnet", (3, 15, 32))
