"""The networks without routing: counts on other images, their losses, dropout, reconstruction, learning."""

import pytest
import torch

from capsnet import create_model
from capsnet.errors import CapsNetError
from capsnet.functional import reconstruction_loss

SMALLNORB = {"image_shape": (2, 48, 48), "num_classes": 5}


def parameters(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("name", "count"), [("cnn_small", 198_613), ("base_capsnet", 167_888)])
def test_the_papers_counts_on_smallnorb(name, count):
    model = create_model(name, **SMALLNORB)
    assert parameters(model.encoder) == count
    poses = model(torch.rand(2, 2, 48, 48)).poses
    assert model.reconstruct(poses).shape == (2, 2, 48, 48)


@pytest.mark.parametrize("name", ["cnn_small", "base_capsnet", "cnn_hinton", "hfc"])
@pytest.mark.parametrize(("shape", "classes"), [((3, 20, 33), 2), ((1, 40, 40), 26)])
def test_other_images_and_classes(name, shape, classes):
    model = create_model(name, shape, classes)
    output = model(torch.rand(2, *shape))
    assert output.scores.shape == (2, classes)
    assert model.classification_loss(output, torch.eye(classes)[:2]).isfinite()


@pytest.mark.parametrize(
    ("name", "side", "sentence"), [("hfc", 18, "needs 19; got 18x18"), ("cnn_hinton", 3, "3x3")]
)
def test_images_that_are_too_small_are_refused(name, side, sentence):
    with pytest.raises(CapsNetError, match=sentence):
        create_model(name, (1, side, side))


@pytest.mark.parametrize("name", ["cnn_small", "cnn_hinton"])
def test_dropout_is_for_training_alone_and_spares_the_features(name):
    model = create_model(name)
    images = torch.rand(4, *model.image_shape)
    first, second = model(images), model(images)
    assert not torch.equal(first.logits, second.logits)
    assert torch.equal(first.poses, second.poses)
    model.eval()
    assert torch.equal(model(images).logits, model(images).logits)


def test_scores_are_the_softmax_and_the_loss_its_cross_entropy():
    model = create_model("cnn_small").eval()
    output = model(torch.rand(5, 1, 28, 28))
    classes = torch.tensor([3, 1, 4, 1, 5])
    torch.testing.assert_close(output.scores.sum(dim=1), torch.ones(5))
    expected = torch.nn.functional.cross_entropy(output.logits, classes)
    targets = torch.nn.functional.one_hot(classes, 10).float()
    torch.testing.assert_close(model.classification_loss(output, targets), expected)


def test_two_classes_in_an_image_share_the_probability():
    model = create_model("cnn_small").eval()
    output = model(torch.rand(2, 1, 28, 28))
    targets = torch.zeros(2, 10)
    targets[:, [2, 7]] = 1
    expected = -output.logits.log_softmax(dim=1)[:, [2, 7]].mean()
    torch.testing.assert_close(model.classification_loss(output, targets), expected)


def test_a_cnn_reconstructs_the_same_whatever_the_class():
    model = create_model("cnn_small")
    poses = model(torch.rand(2, 1, 28, 28)).poses
    assert poses.shape == (2, 192)
    assert torch.equal(model.reconstruct(poses), model.reconstruct(poses, torch.tensor([1, 2])))


def test_base_capsnet_reconstructs_from_the_masked_capsules():
    model = create_model("base_capsnet")
    poses = model(torch.rand(2, 1, 28, 28)).poses
    assert poses.shape == (2, 10, 16)
    assert not torch.equal(
        model.reconstruct(poses, torch.tensor([0, 1])), model.reconstruct(poses, torch.tensor([2, 3]))
    )


@pytest.mark.parametrize("name", ["cnn_small", "base_capsnet", "cnn_hinton", "hfc", "cnn_sabour"])
def test_without_a_decoder_there_is_no_reconstruction(name):
    options = {"image_shape": (1, 20, 20), "channels": (4, 4, 4)} if name == "cnn_sabour" else {}
    model = create_model(name, decoder=False, **options)
    assert model.decoder is None
    with pytest.raises(CapsNetError, match="no decoder"):
        model.reconstruct(torch.rand(2, 10, 16))


def test_the_large_baselines_take_a_decoder_that_their_papers_lack():
    model = create_model("cnn_hinton", decoder=True)
    assert model.reconstruct(model(torch.rand(2, 2, 32, 32)).poses).shape == (2, 2, 32, 32)
    with pytest.raises(CapsNetError, match="hfc has no decoder"):
        create_model("hfc", decoder=True)


def test_hfc_equals_its_equation_written_out():
    model = create_model("hfc", (1, 19, 20), 3, learned_weights=True).eval()
    encoder = model.encoder
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.uniform_(-0.2, 0.3)
    images = torch.rand(2, 1, 19, 20)
    logits = torch.zeros(2, 3)
    maps = images
    for n, (stage, branch) in enumerate(zip(encoder.stages, encoder.branches, strict=True)):
        maps = stage(maps)
        for j in range(3):
            vector = (maps.flatten(2) * branch.weight[j]).sum(dim=1) / 1.001**0.5 + branch.norm.shift
            logit = vector.relu().sum(dim=1) * encoder.branch_weights[n]
            logits[:, j] += logit / 1.001**0.5 + encoder.norm.shift[n]
    torch.testing.assert_close(model(images).logits, logits, rtol=1e-4, atol=1e-4)


def overfit(model, steps=60, lr=2e-3):
    """Trains on 32 random pictures with random classes; gives how many are then right."""
    images = torch.rand(32, *model.image_shape)
    classes = torch.randint(model.architecture.num_classes, (32,))
    targets = torch.nn.functional.one_hot(classes, model.architecture.num_classes).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        output = model(images)
        loss = model.classification_loss(output, targets)
        if model.decoder is not None:
            loss = loss + 0.392 * reconstruction_loss(model.reconstruct(output.poses, classes), images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return int((model(images).scores.argmax(dim=1) == classes).sum())


@pytest.mark.parametrize(
    ("name", "lr"), [("cnn_small", 2e-3), ("base_capsnet", 2e-3), ("hfc", 2e-3), ("cnn_hinton", 5e-4)]
)
def test_32_images_are_overfitted(name, lr):
    options = {"dropout": 0.0} if name.startswith("cnn") else {}
    assert overfit(create_model(name, (1, 20, 20), **options), steps=40, lr=lr) == 32


@pytest.mark.slow
def test_the_large_cnn_overfits_32_images():
    assert overfit(create_model("cnn_sabour", dropout=0.0), steps=20, lr=3e-4) == 32


def test_an_hfc_state_with_the_former_names_is_loaded():
    model, other = (create_model("hfc", (1, 19, 19), 3) for _ in range(2))
    with torch.no_grad():
        model(torch.rand(4, 1, 19, 19))
    former = {
        name.replace(".norm.norm.", ".norm."): tensor
        for name, tensor in model.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    assert "encoder.stages.0.0.norm.running_mean" in former
    other.load_state_dict(former)
    images = torch.rand(2, 1, 19, 19)
    assert torch.equal(model.eval()(images).scores, other.eval()(images).scores)
