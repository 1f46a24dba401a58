"""The convolution through spectra is the convolution."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import conv2d

from capsnet.kernels import accelerate, spectral
from capsnet.kernels.spectral import SpectralBases, spectral_bases, spectral_convolution
from capsnet.layers import ConvPrimaryCapsules


def double(bases: SpectralBases) -> SpectralBases:
    return SpectralBases(*(basis.double() for basis in bases))


@given(
    height=st.integers(9, 24),
    width=st.integers(9, 24),
    kernel=st.integers(1, 9),
    stride=st.integers(1, 3),
    channels=st.integers(1, 3),
)
def test_it_equals_the_direct_sum(height, width, kernel, stride, channels):
    images, weight = torch.randn(2, channels, height, width), torch.randn(4, channels, kernel, kernel)
    expected = conv2d(images.double(), weight.double(), stride=stride)
    got = spectral_convolution(images, weight, stride, spectral_bases((height, width), kernel, stride))
    assert got.shape == expected.shape
    assert (got - expected).abs().max() < 1e-5 * expected.abs().max().clamp_min(1)


def test_bases_are_orthogonal():
    """Together the frequencies hold exactly what the pixels hold: image and back is the image."""
    bases = spectral_bases((12, 10), 1, 1)
    image = torch.randn(120)
    real, (cosine, sine) = (
        bases.image_real @ image,
        (bases.image_pairs @ image).unflatten(0, (-1, 2)).unbind(1),
    )
    back = bases.output_real @ real + bases.output_cosine @ cosine + bases.output_sine @ sine
    torch.testing.assert_close(back, image, rtol=0, atol=1e-5)


def test_frequencies_of_real_numbers_number_the_grid():
    for size in ((20, 20), (28, 28), (19, 24)):
        bases = spectral_bases(size, 9, 2)
        assert len(bases.image_real) + len(bases.image_pairs) == bases.image_real.shape[1]


@pytest.mark.parametrize("size", [(5, 6), (8, 7)])
def test_gradients(size):
    images, weight = torch.randn(2, 1, *size), torch.randn(2, 1, 3, 3)
    images, weight = (t.double().requires_grad_() for t in (images, weight))
    bases = double(spectral_bases(size, 3, 2))
    torch.autograd.gradcheck(lambda x, w: spectral_convolution(x, w, 2, bases), (images, weight))


def test_its_gradients_are_the_direct_sums():
    images = torch.rand(3, 4, 20, 20, requires_grad=True)
    weight = torch.randn(5, 4, 9, 9, requires_grad=True)
    gradient = torch.randn(3, 5, 6, 6)
    direct = torch.autograd.grad(conv2d(images, weight, stride=2), (images, weight), gradient)
    bases = spectral_bases((20, 20), 9, 2)
    spectral = torch.autograd.grad(spectral_convolution(images, weight, 2, bases), (images, weight), gradient)
    for one, other in zip(direct, spectral, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("maps", [(20, 20), (13, 16)])
def test_large_training_batches_give_the_same_capsules_and_gradients(maps, monkeypatch):
    layer = accelerate(ConvPrimaryCapsules(6, maps, types=4, size=8))
    features = torch.rand(spectral._BATCH, 6, *maps)
    results, convolve, used = [], spectral.spectral_convolution, []
    monkeypatch.setattr(
        spectral, "spectral_convolution", lambda *given: used.append(True) or convolve(*given)
    )
    for training in (True, False):
        layer.train(training).zero_grad()
        capsules = layer(features)
        capsules.square().sum().backward()
        results.append((capsules, layer.weight.grad.clone(), layer.bias.grad.clone()))
    assert used == [True]
    for fast, direct in zip(*results, strict=True):
        torch.testing.assert_close(fast, direct, rtol=1e-4, atol=1e-5)


def test_other_number_types_and_compilers_convolve_directly():
    layer = accelerate(ConvPrimaryCapsules(2, (9, 9), types=2).double())
    assert layer(torch.rand(spectral._BATCH, 2, 9, 9, dtype=torch.float64)).dtype == torch.float64
    layer = accelerate(ConvPrimaryCapsules(2, (9, 9), types=2))
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.rand(spectral._BATCH, 2, 9, 9)).isfinite().all()


def test_large_maps_are_convolved_directly():
    spectral._bases.cache_clear()
    layer = accelerate(ConvPrimaryCapsules(1, (80, 80), types=1, size=1))
    layer(torch.rand(spectral._BATCH, 1, 80, 80))
    assert spectral._bases.cache_info().currsize == 0
