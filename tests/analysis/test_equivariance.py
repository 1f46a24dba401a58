"""The table of principal components: checked without a network, then on a few images."""

import math

import numpy as np
import pytest
import torch

import capsnet
from capsnet.analysis.equivariance import explained, linear_read_out, random_shares, residuals, shares_table
from capsnet.analysis.subject import Subject
from capsnet.analysis.transformations import LINEAR, ROTATION, SCALE, THICKNESS, X, Y
from capsnet.errors import CapsNetError


@pytest.fixture(scope="module")
def subject():
    return Subject(capsnet.open_weights("efficient_capsnet.mnist"))


@pytest.mark.parametrize(("samples", "reported"), [(11, 25.57), (51, 13.49)])
def test_random_vectors_give_the_papers_random_row(samples, reported):
    shares = 100 * random_shares(10_000, samples)[:, 0]
    error = float(shares.std()) / math.sqrt(len(shares))
    assert float(shares.mean()) == pytest.approx(reported, abs=0.03 + 4 * error)


def test_shares_are_those_of_numpys_eigenvalues():
    points = torch.randn(3, 7, 5)
    for mine, p in zip(explained(points), points.double().numpy(), strict=True):
        values = np.sort(np.linalg.eigvalsh(np.cov(p.T, bias=True)))[::-1]
        np.testing.assert_allclose(mine.numpy(), values / values.sum(), atol=1e-12)


def test_a_line_is_one_component_and_a_point_is_none():
    line = torch.linspace(-1, 1, 11)[None, :, None] * torch.randn(1, 1, 16)
    assert float(explained(line)[0, 0]) == pytest.approx(1.0)
    assert float(explained(torch.ones(1, 11, 16)).sum()) == 0


def test_whole_shifts_move_pixels_and_nothing_else():
    image = torch.rand(1, 1, 9, 9)
    torch.testing.assert_close(X.apply(image, torch.tensor([2.0]))[..., 2:], image[..., :-2])
    torch.testing.assert_close(Y.apply(image, torch.tensor([-3.0]))[..., :-3, :], image[..., 3:, :])


@pytest.mark.parametrize("by", LINEAR, ids=lambda by: by.name)
def test_the_middle_of_each_transformation_is_the_image_itself(by):
    image = torch.rand(1, 1, 12, 12)
    same = torch.tensor([1.0 if by is SCALE else 0.0])
    torch.testing.assert_close(by.apply(image, same), image)


def test_thickness_is_dilation_and_erosion_at_its_ends():
    image = torch.zeros(1, 1, 7, 7)
    image[..., 2:5, 2:5] = 1
    assert float(THICKNESS.apply(image, torch.tensor([1.0])).sum()) == 25
    assert float(THICKNESS.apply(image, torch.tensor([-1.0])).sum()) == 1


def test_a_right_angle_is_a_right_angle():
    image = torch.rand(1, 1, 8, 8)
    torch.testing.assert_close(
        ROTATION.apply(image, torch.tensor([90.0])), image.rot90(-1, (2, 3)), atol=1e-5, rtol=0
    )


def test_the_read_out_is_one_for_a_linear_code_and_none_for_noise():
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(400, 1, generator=generator)
    code = values @ torch.randn(1, 16, generator=generator) + 3
    left, total = residuals(code[:200], values[:200], code[200:], values[200:])
    assert left / total < 1e-6
    noise = torch.randn(400, 16, generator=generator)
    left, total = residuals(noise[:200], values[:200], noise[200:], values[200:])
    assert left / total > 0.9


def test_a_trained_network_is_more_linear_than_chance(subject):
    shares = shares_table(subject, subject.choose(6, seed=1))
    assert {k: tuple(v.shape) for k, v in shares.items()} == dict.fromkeys(("x", "y", "rotation"), (6, 16))
    assert float(shares["x"][:, 0].mean()) > 0.45
    assert float(shares["rotation"][:, 0].mean()) > 0.45


def test_the_read_out_finds_shifts_in_a_trained_network(subject):
    result = linear_read_out(subject, subject.choose(160, seed=1))
    assert result["x"]["r_squared"] > 0.2
    assert len(result["x"]["by_class"]) == 10


def test_networks_without_capsules_are_refused(tmp_path):
    capsnet.save(capsnet.create_model("cnn_small"), tmp_path / "w")
    plain = Subject(capsnet.open_weights(tmp_path / "w", "mnist"))
    with pytest.raises(CapsNetError, match="no class capsules"):
        shares_table(plain, torch.arange(2))
