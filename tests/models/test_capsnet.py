"""CapsNet and its relatives: counts on other images, the original program's details, learning, cost."""

import pytest
import torch

from capsnet import create_model
from capsnet.errors import CapsNetError
from capsnet.functional import margin_loss, reconstruction_loss, spread_loss, squash_sabour

SMALL = {"image_shape": (1, 20, 20), "channels": 16, "types": 4}


@pytest.mark.parametrize(
    ("shape", "classes", "capsules", "count"),
    [
        ((1, 28, 28), 10, 1152, 6_804_384),
        ((1, 36, 36), 10, 3200, 9_425_824),
        ((2, 32, 32), 5, 2048, 6_661_200),
    ],
)
def test_the_papers_counts(shape, classes, capsules, count):
    with torch.device("meta"):
        model = create_model("capsnet", shape, classes)
    assert model.encoder.primary.capsules == capsules
    assert sum(p.numel() for p in model.encoder.parameters()) == count


def test_the_encoder_equals_the_original_program_written_out():
    model = create_model("capsnet", num_classes=3, **SMALL).double().eval()
    encoder = model.encoder
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    image = torch.rand(1, 1, 20, 20, dtype=torch.float64)
    maps = torch.nn.functional.conv2d(image, encoder.conv.weight, encoder.conv.bias).relu()
    conv = torch.nn.functional.conv2d(maps, encoder.primary.weight, stride=2)[0]
    capsules = [
        squash_sabour(conv[8 * kind : 8 * kind + 8, row, column] / 4 + encoder.primary.bias[kind])
        for row in range(2)
        for column in range(2)
        for kind in range(4)
    ]
    weight, bias = encoder.capsules.weight, encoder.capsules.routing.bias
    votes = torch.stack([torch.stack([c @ weight[j, i] for i, c in enumerate(capsules)]) for j in range(3)])
    logits = torch.zeros(3, 16, dtype=torch.float64)
    for _ in range(3):
        coupling = logits.softmax(dim=0)
        poses = squash_sabour((coupling[..., None] * votes).sum(dim=1) + bias)
        logits = logits + (votes * poses[:, None]).sum(dim=2)
    output = model(image, coupling=True)
    torch.testing.assert_close(output.poses[0], poses)
    torch.testing.assert_close(output.coupling[0], coupling)
    torch.testing.assert_close(output.scores[0], (poses.square().sum(dim=1) + 1e-7).sqrt())


def test_initial_values_are_the_original_programs():
    encoder = create_model("capsnet", channels=64, types=8).encoder
    assert encoder.conv.weight.abs().max() <= 0.1
    assert abs(encoder.conv.weight.std() - 0.044) < 0.002
    assert abs(encoder.capsules.weight.std() - 0.088) < 0.002
    for bias in (encoder.conv.bias, encoder.primary.bias, encoder.capsules.routing.bias):
        assert (bias == 0.1).all()


@pytest.mark.parametrize("routing", ["self_attention", "leaky", "uniform", "em"])
def test_other_routings_take_its_place(routing):
    model = create_model("capsnet", routing=routing, **SMALL)
    output = model(torch.rand(2, 1, 20, 20), coupling=True)
    assert output.poses.shape == (2, 10, 16)
    assert output.coupling.shape == (2, 10, 16)
    output.scores.sum().backward()


def test_the_original_programs_loss_is_a_twentieth():
    targets = torch.eye(10)[:3]
    ours, theirs = (create_model("capsnet", original_loss=original, **SMALL) for original in (False, True))
    output = ours(torch.rand(3, 1, 20, 20))
    torch.testing.assert_close(ours.classification_loss(output, targets), margin_loss(output.scores, targets))
    torch.testing.assert_close(
        20 * theirs.classification_loss(output, targets), ours.classification_loss(output, targets)
    )


@pytest.mark.parametrize("name", ["capsnet", "da_capsnet"])
def test_em_routing_brings_its_loss(name):
    model = create_model(name, routing="em", **SMALL)
    output, targets = model(torch.rand(3, 1, 20, 20)), torch.eye(10)[:3]
    expected = spread_loss(output.scores, targets, margin=0.2 + 0.7 * 0.25)
    torch.testing.assert_close(model.classification_loss(output, targets, progress=0.25), expected)


@pytest.mark.parametrize("routing", ["em", "variational"])
def test_the_best_scored_class_is_reconstructed_and_not_the_longest_pose(routing):
    model = create_model("capsnet", routing=routing, **SMALL).eval()
    output = model(torch.rand(1, 1, 20, 20))
    shrunk = output.poses.clone()
    shrunk[0, output.scores.argmax()] *= 1e-3
    output = output._replace(poses=shrunk)
    expected = model.reconstruct(shrunk, output.scores.argmax(dim=1))
    assert torch.equal(model.reconstruct(output), expected)
    with pytest.raises(CapsNetError, match="give the model's output instead of its poses, or the classes"):
        model.reconstruct(output.poses)


@pytest.mark.parametrize("name", ["capsnet", "da_capsnet"])
def test_images_below_17_pixels_are_refused(name):
    create_model(name, (3, 17, 18), 2, channels=4, types=2)
    with pytest.raises(CapsNetError, match="17 pixels a side or more; got 16x28"):
        create_model(name, (1, 16, 28))


def test_the_gates_of_da_capsnet_scale_maps_and_capsules():
    model = create_model("da_capsnet", **SMALL).eval()
    encoder = model.encoder
    plain = create_model("capsnet", **SMALL).eval()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if "gate" not in k})
    images = torch.rand(2, 1, 20, 20)
    assert not torch.allclose(model(images).poses, plain(images).poses)
    with torch.no_grad():
        for gate in (encoder.map_gate, encoder.capsule_gate):
            gate.excite.weight.zero_()
            gate.excite.bias.fill_(100)
    torch.testing.assert_close(model(images).poses, plain(images).poses)


def test_ar_capsnet_equals_its_equations_written_out():
    model = create_model("ar_capsnet", (1, 6, 7), 3).double().eval()
    encoder = model.encoder
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    image = torch.rand(1, 1, 6, 7, dtype=torch.float64)
    primary = encoder.primary(encoder.blocks(image)).relu()
    maps = encoder.types.maps
    primary = torch.cat(
        [
            torch.einsum("dk,bkhw->bdhw", maps.weight[s, :, 0, 0], primary[:, s]) + maps.bias[s, None, None]
            for s in (slice(16 * n, 16 * n + 16) for n in range(8))
        ],
        dim=1,
    ).tanh()

    def layer(capsules, below, outputs, module, **options):
        weight, bias, learned = module.votes.weight, module.votes.bias, module.routing
        votes = []
        for i in range(8):
            own, rows = slice(below * i, below * (i + 1)), slice(outputs * 32 * i, outputs * 32 * (i + 1))
            votes.append(torch.nn.functional.conv2d(capsules[:, own], weight[rows], bias[rows], **options))
        poses = []
        for j in range(outputs):
            u = torch.stack([v[0, 32 * j : 32 * j + 32] for v in votes], dim=1)  # d, i, h, w
            share = torch.einsum("dkhw,dki->ihw", u, learned.attention[j]).softmax(dim=0)
            s = (share * u).sum(dim=1)
            b = learned.bias[j, :, None, None]
            poses.append((torch.einsum("dhw,de->ehw", s, learned.transform[j]) + b).tanh())
        return torch.cat(poses)[None]

    middle = layer(primary, 16, 8, encoder.conv_capsules, stride=2, padding=1)
    classes = layer(middle, 32, 3, encoder.capsules)[0, :, 0, 0].unflatten(0, (3, 32))
    output = model(image, coupling=True)
    torch.testing.assert_close(output.poses[0], classes)
    torch.testing.assert_close(output.scores[0], (classes.square().sum(dim=1) + 1e-7).sqrt() / 32**0.5)
    torch.testing.assert_close(output.coupling.sum(dim=2), torch.ones(1, 3, dtype=torch.float64))


def test_ar_capsnet_drops_out_in_training_alone():
    model = create_model("ar_capsnet", (1, 12, 12))
    images = torch.rand(2, 1, 12, 12)
    assert not torch.equal(model(images).poses, model(images).poses)
    model.eval()
    assert torch.equal(model(images).poses, model(images).poses)


def overfit(model, steps, lr, images=32):
    """Trains on random pictures with random classes; gives how many are then right."""
    pictures = torch.rand(images, *model.image_shape)
    classes = torch.randint(model.architecture.num_classes, (images,))
    targets = torch.nn.functional.one_hot(classes, model.architecture.num_classes).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        output = model(pictures)
        loss = model.classification_loss(output, targets)
        loss = loss + 0.392 * reconstruction_loss(model.reconstruct(output.poses, classes), pictures)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return int((model(pictures).scores.argmax(dim=1) == classes).sum())


@pytest.mark.parametrize("name", ["capsnet", "da_capsnet"])
def test_small_ones_overfit_32_images(name):
    assert overfit(create_model(name, **SMALL), steps=100, lr=3e-3) == 32


def test_ar_capsnet_overfits_32_images():
    assert overfit(create_model("ar_capsnet", (1, 12, 12), dropout=0.0), steps=60, lr=1e-3) == 32


def test_efficient_capsnet_with_em_routing_overfits_32_images():
    model = create_model("efficient_capsnet", (1, 20, 20), routing="em")
    assert overfit(model, steps=40, lr=2e-3) == 32


@pytest.mark.slow
@pytest.mark.parametrize("name", ["capsnet", "da_capsnet", "ar_capsnet"])
def test_whole_ones_overfit_32_images(name):
    options = {"dropout": 0.0} if name == "ar_capsnet" else {}
    assert overfit(create_model(name, **options), steps=40, lr=1e-3) == 32
