"""Every system, accelerated and plain: the same numbers, and the same hooks."""

import copy

import pytest
import torch
from torch import nn

from capsnet import kernels, list_models
from capsnet.functional import reconstruction_loss

STEPS = 20
# BatchNorm of only two images' class capsules would make rounding errors hundreds of times as large, in plain models too.
IMAGES = {"vb_capsnet": 8}


def loss_of(model, images):
    output = model(images)
    classes = torch.arange(len(images)) % output.scores.shape[1]
    targets = torch.nn.functional.one_hot(classes, output.scores.shape[1]).float()
    loss = model.classification_loss(output, targets, progress=0.5)
    if model.decoder is not None:
        loss = loss + 0.392 * reconstruction_loss(model.reconstruct(output.poses, classes), images)
    return loss


def prepared(model):
    return model.to(memory_format=torch.channels_last)


def seeded_loss(model, images, seed):
    """Dropout is the same for both."""
    torch.manual_seed(seed)
    return loss_of(model, images.to(next(model.parameters()).dtype))


def gradients_of(model, loss):
    return [gradient.double() for gradient in torch.autograd.grad(loss, list(model.parameters()))]


def clear_images(model, least=1e-5):
    """A few images for which no ReLU's input is so near to zero that rounding could decide its sign, and with it a gradient."""
    nearest = []

    def note(module, given, result):
        nearest.append(given[0].abs().min() / given[0].square().mean().sqrt())

    hooks = [m.register_forward_hook(note) for m in model.modules() if isinstance(m, nn.ReLU | nn.LeakyReLU)]
    buffers = copy.deepcopy(list(model.buffers()))
    while True:
        images = torch.rand(IMAGES.get(model.architecture.name, 2), *model.image_shape)
        with torch.no_grad():
            model(images)
            for buffer, before in zip(model.buffers(), buffers, strict=True):
                buffer.copy_(before)
        if all(distance > least for distance in nearest):
            break
        nearest.clear()
    for hook in hooks:
        hook.remove()
    return images


def errors(gradients, references):
    """Of each parameter, relative. Some have nothing but rounding errors: a bias before BatchNorm has no effect."""
    most = max(reference.norm() for reference in references)
    pairs = zip(gradients, references, strict=True)
    return torch.stack([(a - b).norm() / (b.norm() + 1e-2 * most) for a, b in pairs])


@pytest.mark.parametrize("name", list_models())
def test_outputs_losses_and_gradients_are_the_plain_ones(name, small_model):
    """At each of the steps that the plain one takes. With channels last, some of PyTorch's own gradients are right to three
    digits only; then the accelerated ones are no farther from float64's."""
    fast = kernels.accelerate(prepared(small_model(name)))
    plain = kernels.plain(copy.deepcopy(fast))
    optimizer = torch.optim.SGD(plain.parameters(), lr=1e-3)
    for step in range(STEPS):
        images = clear_images(plain)
        fast.load_state_dict(plain.state_dict())
        exact = copy.deepcopy(plain)
        ours, theirs = (seeded_loss(model, images, step) for model in (fast, plain))
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=0)
        got, expected = gradients_of(fast, ours), gradients_of(plain, theirs)
        if (errors(got, expected) > 1e-4).any():
            exact = exact.double()
            reference = gradients_of(exact, seeded_loss(exact, images, step))
            assert (errors(got, reference) <= 1e-4 + errors(expected, reference)).all()
        for one, other in zip(fast.buffers(), plain.buffers(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
        for parameter, gradient in zip(plain.parameters(), expected, strict=True):
            parameter.grad = gradient.float()
        optimizer.step()
    fast.load_state_dict(plain.state_dict())
    images = torch.rand(4, *plain.image_shape)
    ours, theirs = fast.eval()(images), plain.eval()(images)
    torch.testing.assert_close(ours.scores, theirs.scores, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(ours.poses, theirs.poses, rtol=1e-4, atol=1e-5)


def count_hooks(model, images):
    """How often each kind of hook fires on each submodule, in training with its backward pass and in evaluation."""
    counts: dict[tuple[str, str], int] = {}

    def note(name, kind):
        def hook(*_):
            counts[name, kind] = counts.get((name, kind), 0) + 1

        return hook

    hooks = [
        getattr(module, register)(note(name, register))
        for name, module in model.named_modules()
        for register in (
            "register_forward_pre_hook",
            "register_forward_hook",
            "register_full_backward_pre_hook",
            "register_full_backward_hook",
        )
    ]
    loss_of(model.train(), images.requires_grad_()).backward()
    with torch.no_grad():
        model.eval()(images)
    for hook in hooks:
        hook.remove()
    return counts


@pytest.mark.parametrize("name", list_models())
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # the model's own output is a named tuple
def test_hooks_on_every_submodule_fire_as_often_as_on_the_plain_one(name, small_model):
    plain = prepared(small_model(name))
    fast = kernels.accelerate(copy.deepcopy(plain))
    images = torch.rand(2, *plain.image_shape)
    torch.manual_seed(0)
    counts = count_hooks(fast, images)
    assert counts == count_hooks(plain, images)
    leaves = [
        n for n, m in plain.named_modules() if not list(m.children()) and type(m) in (nn.Conv2d, nn.Linear)
    ]
    for leaf in leaves:  # training, with the decoder's reading of it, and evaluation
        assert counts[leaf, "register_forward_hook"] >= (1 if leaf.startswith("decoder") else 2), leaf


@pytest.mark.parametrize("place", ["encoder.blocks.1", "encoder.blocks.1.conv", "encoder.blocks.0.norm"])
def test_a_hook_on_one_submodule_fires_and_changes_no_gradient(place, small_model):
    plain = prepared(small_model("efficient_capsnet"))
    fast = kernels.accelerate(copy.deepcopy(plain))
    images, gradients = torch.rand(2, *plain.image_shape), []
    for model in (plain, fast):
        seen = []
        model.get_submodule(place).register_forward_hook(
            lambda module, given, result, seen=seen: seen.append(result)
        )
        # A loss on what the hook sees, which must still be there when gradients are taken.
        loss = loss_of(model, images) + seen[0].square().mean()
        gradients.append(torch.autograd.grad(loss, list(model.encoder.parameters())))
        assert len(seen) == 1
    for ours, theirs in zip(*gradients, strict=True):
        assert (ours - theirs).norm() <= 1e-3 * (theirs.norm() + 1e-4)


@pytest.mark.parametrize("name", ["efficient_capsnet", "efficient_capsnet_multimnist"])
def test_gradient_penalties_are_the_plain_ones(name, small_model):
    plain = prepared(small_model(name)).double().float()
    fast = kernels.accelerate(copy.deepcopy(plain))
    images, found = torch.rand(2, *plain.image_shape), []
    for model in (plain, fast):
        given = images.clone().requires_grad_()
        (slope,) = torch.autograd.grad(loss_of(model, given), given, create_graph=True)
        penalty = slope.square().sum()
        found.append([slope, *torch.autograd.grad(penalty, list(model.encoder.parameters()))])
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).norm() <= 1e-3 * (theirs.norm() + 1e-6)
