import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from capsnet.errors import CapsNetError
from capsnet.functional.routing import matrix_votes
from capsnet.functional.routing.positions import OverPositions, seen_children
from capsnet.functional.votes import compute_matrix_votes
from capsnet.layers import ClassCapsules, ConvCapsules, MatrixPrimaryCapsules

TYPES, PARENTS, SIDE = 2, 3, 5  # child types, parent types, the children's map


def digamma(x):
    return torch.digamma(torch.tensor(x, dtype=torch.float64)).item()


def em_fit(votes, weights, beta_a, beta_u, iteration, _):
    """(density(vote), pose, activation) of one parent at one position."""
    mass = weights.sum() + 1e-7
    mean = (weights[:, None] * votes).sum(axis=0) / mass
    variance = np.maximum((weights[:, None] * (votes - mean) ** 2).sum(axis=0) / mass, 5e-4)
    cost = ((beta_u + np.log(variance) / 2) * mass).sum()
    active = 1 / (1 + np.exp(-0.01 * (1 - 0.95 ** (iteration + 1)) * (beta_a - cost)))

    def log_density(vote):
        return np.log(active) - 0.5 * ((vote - mean) ** 2 / variance + np.log(2 * np.pi * variance)).sum()

    return log_density, mean, active


def vb_fit(votes, weights, beta_a, beta_u, _, position_masses):
    mass, size = weights.sum(), votes.shape[1]
    kappa, nu = 1 + mass, size + 1 + mass
    mean = (weights[:, None] * votes).sum(axis=0) / mass
    m = mass * mean / kappa
    inverse_psi = 1 + (weights[:, None] * (votes - mean) ** 2).sum(axis=0) + mass / kappa * mean**2
    log_pi = digamma(1 + mass) - digamma(sum(1 + other for other in position_masses))
    log_det = sum(digamma((nu - d) / 2) for d in range(size)) + size * np.log(2) - np.log(inverse_psi).sum()

    def log_density(vote):
        distance = size / kappa + nu * ((vote - m) ** 2 / inverse_psi).sum()
        return log_pi + log_det / 2 - size / 2 * np.log(2 * np.pi) - distance / 2

    entropy = size / 2 * np.log(2 * np.pi * np.e) - log_det / 2
    return log_density, m, beta_a - (np.exp(log_pi) * entropy + beta_u)


def brute_force(layer, poses, activations, fit, iterations=3):
    """One image, one parent, one child at a time: poses (C, 16, H, W), activations (C, H, W)."""
    weight = layer.weight.detach().numpy().reshape(PARENTS, 4, 4, TYPES, 3, 3)
    beta_a, beta_u = layer.routing.beta_a.detach().numpy(), layer.routing.beta_u.detach().numpy()
    out = (SIDE - 3) // layer.stride + 1
    places = [(y, x) for y in range(out) for x in range(out)]
    windows, votes = {}, {}
    for y, x in places:
        windows[y, x] = [
            (c, y * layer.stride + ky, x * layer.stride + kx, ky, kx)
            for c in range(TYPES) for ky in range(3) for kx in range(3)
        ]  # fmt: skip
        for j in range(PARENTS):
            votes[y, x, j] = np.stack(
                [
                    (poses[c, :, row, column].reshape(4, 4) @ weight[j, :, :, c, ky, kx]).reshape(16)
                    for c, row, column, ky, kx in windows[y, x]
                ]
            )
    seen_by = {}
    for place, window in windows.items():
        for n, (c, row, column, _, _) in enumerate(window):
            seen_by.setdefault((c, row, column), []).append((place, n))
    r = {key: np.zeros(len(votes[key])) for key in votes}
    for parents in seen_by.values():
        for place, n in parents:
            for j in range(PARENTS):
                r[(*place, j)][n] = 1 / (len(parents) * PARENTS)
    for iteration in range(iterations):
        fits, masses, weights = {}, {}, {}
        for key in votes:
            active = np.array([activations[c, row, col] for c, row, col, _, _ in windows[key[:2]]])
            weights[key] = r[key] * active
            masses[key] = weights[key].sum()
        for key in votes:
            siblings = [masses[(*key[:2], j)] for j in range(PARENTS)]
            j = key[2]
            fits[key] = fit(votes[key], weights[key], beta_a[j], beta_u[j], iteration, siblings)
        for parents in seen_by.values():
            logs = {
                (place, n, j): fits[(*place, j)][0](votes[(*place, j)][n])
                for place, n in parents for j in range(PARENTS)
            }  # fmt: skip
            top = max(logs.values())
            total = sum(math.exp(value - top) for value in logs.values())
            for (place, n, j), value in logs.items():
                r[(*place, j)][n] = math.exp(value - top) / total
    routed, active = np.zeros((PARENTS, 16, out, out)), np.zeros((PARENTS, out, out))
    for (y, x, j), (_, pose, number) in fits.items():
        routed[j, :, y, x], active[j, y, x] = pose, number
    return routed, active


def random_layer(routing, stride):
    layer = ConvCapsules(TYPES, PARENTS, stride=stride, routing=routing).double()
    torch.nn.init.normal_(layer.routing.beta_a)
    torch.nn.init.normal_(layer.routing.beta_u)
    return layer


@pytest.mark.parametrize("stride", [1, 2])
def test_em_equals_a_brute_force_over_all_parents_at_all_positions(stride):
    layer = random_layer("em", stride)
    poses, activations = (
        torch.randn(2, TYPES, 16, SIDE, SIDE).double(),
        torch.rand(2, TYPES, SIDE, SIDE).double(),
    )
    routed, active = layer(poses, activations)
    for n in range(2):
        want_poses, want_active = brute_force(layer, poses[n].numpy(), activations[n].numpy(), em_fit)
        assert np.allclose(routed[n].detach(), want_poses, atol=1e-9, rtol=0)
        assert np.allclose(active[n].detach(), want_active, atol=1e-9, rtol=0)


@pytest.mark.parametrize("stride", [1, 2])
def test_variational_equals_a_brute_force_over_all_parents_at_all_positions(stride):
    layer = random_layer("variational", stride)
    layer.routing.pose_norm = layer.routing.activation_norm = (
        torch.nn.Identity()
    )  # compare what is batch-normalised
    poses, activations = (
        torch.randn(2, TYPES, 16, SIDE, SIDE).double(),
        torch.rand(2, TYPES, SIDE, SIDE).double(),
    )
    routed, numbers = layer(poses, activations)
    for n in range(2):
        want_poses, want_numbers = brute_force(layer, poses[n].numpy(), activations[n].numpy(), vb_fit)
        assert np.allclose(routed[n].detach(), want_poses, atol=1e-9, rtol=0)
        assert np.allclose(numbers[n].detach(), 1 / (1 + np.exp(-want_numbers)), atol=1e-9, rtol=0)


def test_variational_poses_and_activations_are_normalised_for_each_type():
    layer = ConvCapsules(TYPES, PARENTS, routing="variational")
    routed, active = layer(100 * torch.randn(4, TYPES, 16, SIDE, SIDE), torch.rand(4, TYPES, SIDE, SIDE))
    for values in (routed.transpose(0, 1).flatten(1), active.logit().transpose(0, 1).flatten(1)):
        assert torch.allclose(values.mean(dim=1), torch.zeros(PARENTS), atol=1e-4)
        assert torch.allclose(values.var(dim=1, unbiased=False), torch.ones(PARENTS), atol=1e-2)


@pytest.mark.parametrize("stride", [1, 2])
def test_a_childs_coupling_sums_to_one_over_all_positions_that_see_it(stride):
    seen = seen_children((TYPES, SIDE, SIDE), 3, stride)
    positions, inputs = seen.shape
    logits = 10 * torch.randn(2, positions * PARENTS, inputs)
    coupling = OverPositions(seen, TYPES * SIDE * SIDE)(logits).view(2, positions, PARENTS, inputs)
    total = torch.zeros(2, TYPES * SIDE * SIDE)
    for p in range(positions):
        for i in range(inputs):
            total[:, seen[p, i]] += coupling[:, p, :, i].sum(dim=1)
    visible = torch.zeros(TYPES * SIDE * SIDE, dtype=torch.bool)
    visible[seen.flatten()] = True
    assert torch.allclose(total[:, visible], torch.ones(2, int(visible.sum())), atol=1e-5)


def test_coupling_over_positions_has_right_gradients_and_stands_huge_logits():
    seen = seen_children((1, 4, 4), 3, 1)
    normalise = OverPositions(seen, 16)
    assert gradcheck(normalise, torch.randn(2, 8, 9, dtype=torch.float64, requires_grad=True))
    logits = (1e6 * torch.randn(2, 8, 9)).requires_grad_()
    coupling = normalise(logits)
    coupling.square().sum().backward()
    assert coupling.isfinite().all()
    assert logits.grad.isfinite().all()


def test_matrix_votes_equal_a_product_for_each_pair_and_have_right_gradients():
    poses, weight = torch.randn(2, 3, 4, 4, 5).double(), torch.randn(6, 4, 4, 5).double()
    votes = compute_matrix_votes(poses, weight)
    for p in range(3):
        for j in range(6):
            for i in range(5):
                assert torch.allclose(votes[:, p, j, :, :, i], poses[:, p, :, :, i] @ weight[j, :, :, i])
    small = (
        torch.randn(1, 2, 2, 2, 3).double().requires_grad_(),
        torch.randn(2, 2, 2, 3).double().requires_grad_(),
    )
    assert gradcheck(compute_matrix_votes, small)


@pytest.mark.parametrize("routing", ["em", "variational"])
def test_layers_have_right_gradients(routing):
    layer = ConvCapsules(1, 2, kernel=2, routing=routing, iterations=2).double()
    inputs = (
        torch.randn(2, 1, 16, 3, 3).double().requires_grad_(),
        torch.rand(2, 1, 3, 3).double().requires_grad_(),
    )
    assert gradcheck(layer, inputs, fast_mode=True)
    capsules = ClassCapsules(1, 2, routing=routing, iterations=2).double()
    assert gradcheck(lambda *x: tuple(capsules(*x)), inputs, fast_mode=True)


@pytest.mark.parametrize("routing", ["em", "variational"])
def test_without_gradients_votes_of_some_images_at_a_time_give_the_same(routing, monkeypatch):
    layer = ConvCapsules(TYPES, PARENTS, routing=routing)
    inputs, results = (torch.randn(3, TYPES, 16, SIDE, SIDE), torch.rand(3, TYPES, SIDE, SIDE)), []
    compute, images = matrix_votes.compute_matrix_votes, []
    monkeypatch.setattr(
        matrix_votes,
        "compute_matrix_votes",
        lambda poses, weight: images.append(len(poses)) or compute(poses, weight),
    )
    for at_once in (2**30, 1):
        monkeypatch.setattr(matrix_votes, "_AT_ONCE", at_once)
        with torch.no_grad():
            results.append(layer(*inputs))
    assert images == [3, 1, 1, 1]
    for together, alone in zip(*results, strict=True):
        assert torch.allclose(together, alone, atol=1e-5)


def small_network(routing):
    """A convolutional layer and class capsules, as a function of poses, and its poses."""
    layer = ConvCapsules(1, 2, kernel=2, routing=routing, iterations=2).double().eval()
    classes = ClassCapsules(2, 2, routing=routing, iterations=2).double().eval()
    activations = torch.rand(2, 1, 3, 3).double()

    def run(poses):
        return classes(*layer(poses, activations[: len(poses)]))

    return run, torch.randn(2, 1, 16, 3, 3).double()


@pytest.mark.parametrize("routing", ["em", "variational"])
def test_function_transforms_give_the_gradients_of_autograd(routing):
    run, poses = small_network(routing)
    leaf = poses.clone().requires_grad_()
    (expected,) = torch.autograd.grad(run(leaf).poses.square().sum(), leaf)
    found = torch.func.grad(lambda x: run(x).poses.square().sum())(poses)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    alone = torch.func.vmap(lambda x: run(x.unsqueeze(0)).activations.squeeze(0))(poses[:1])
    torch.testing.assert_close(alone, run(poses[:1]).activations, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("routing", ["em", "variational"])
def test_gradients_of_gradients_are_right(routing):
    run, poses = small_network(routing)
    assert torch.autograd.gradgradcheck(lambda x: tuple(run(x)), poses[:1].requires_grad_(), fast_mode=True)


def test_class_capsules_share_their_matrices_and_add_the_position_to_two_elements():
    layer = ClassCapsules(TYPES, PARENTS, iterations=1).double()
    poses = torch.randn(2, TYPES, 16, 2, 4).double()
    activations = torch.rand(2, TYPES, 2, 4).double()
    result = layer(poses, activations)
    weights = activations / activations.sum(dim=(1, 2, 3), keepdim=True)
    for j in range(PARENTS):
        mean = torch.zeros(2, 16).double()
        for c in range(TYPES):
            for y in range(2):
                for x in range(4):
                    vote = (poses[:, c, :, y, x].view(2, 4, 4) @ layer.weight[j, :, :, c]).flatten(1)
                    vote = vote + torch.tensor([(y + 0.5) / 2, (x + 0.5) / 4] + [0.0] * 14).double()
                    mean += weights[:, c, y, x, None] * vote
        assert torch.allclose(result.poses[:, j], mean, atol=1e-6)
    assert torch.allclose(result.coupling.sum(dim=1), torch.ones(2, TYPES * 8).double())


def test_primary_capsules_read_poses_and_activations_off_one_convolution():
    layer, features = MatrixPrimaryCapsules(6, 3), torch.randn(2, 6, 4, 5)
    poses, activations = layer(features)
    maps = torch.einsum("bfhw,cf->bchw", features, layer.conv.weight[:, :, 0, 0])
    assert torch.allclose(poses[:, 1], maps[:, 16:32], atol=1e-5)
    assert torch.allclose(activations, (maps[:, 48:] - 1).sigmoid(), atol=1e-5)
    assert layer.conv.bias is None


def test_normalised_primary_capsules_have_one_affine_pair_a_type():
    layer = MatrixPrimaryCapsules(6, 3, normalised=True)
    assert sum(p.numel() for p in layer.parameters()) == 6 * 51 + 6 + 6
    poses, _ = layer(torch.randn(4, 6, 4, 5))
    assert torch.allclose(poses.mean(dim=(0, 2, 3, 4)), torch.zeros(3), atol=1e-5)


def test_other_routings_are_refused():
    with pytest.raises(
        CapsNetError, match="Convolutional capsules route by 'em' or 'variational', not 'dynamic'"
    ):
        ConvCapsules(2, 3, routing="dynamic")


@pytest.mark.parametrize("routing", ["em", "variational"])
def test_routing_keeps_float32_under_autocast(routing):
    layer = ConvCapsules(TYPES, PARENTS, routing=routing)
    poses, activations = torch.randn(2, TYPES, 16, SIDE, SIDE), torch.rand(2, TYPES, SIDE, SIDE)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = layer(poses, activations)
    for ours, expected in zip(mixed, layer(poses, activations), strict=True):
        assert ours.dtype == torch.float32
        assert torch.equal(ours, expected)
