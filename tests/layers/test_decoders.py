import math

import pytest
import torch

from capsnet.errors import CapsNetError
from capsnet.layers import ConvDecoder, DenseDecoder, mask_poses


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def test_mask_keeps_the_chosen_capsule_only():
    poses = torch.randn(3, 4, 5)
    masked = mask_poses(poses, torch.tensor([2, 0, 3]))
    for b, chosen in enumerate((2, 0, 3)):
        for j in range(4):
            assert torch.equal(masked[b, j], poses[b, j] if j == chosen else torch.zeros(5))


@pytest.mark.parametrize(("shape", "count"), [((1, 28, 28), 1_411_344), ((1, 36, 36), 1_936_144)])
def test_dense_decoder_has_the_papers_parameters(shape, count):
    decoder = DenseDecoder(160, shape)
    assert parameters(decoder) == count
    assert decoder(torch.randn(2, 160)).shape == (2, *shape)


def test_convolutional_decoder_has_the_papers_parameters():
    decoder = ConvDecoder(80, (2, 48, 48))
    assert parameters(decoder) == 229_570
    assert decoder(torch.randn(2, 80)).shape == (2, 2, 48, 48)


@pytest.mark.parametrize("decoder", [DenseDecoder(20, (1, 12, 9)), ConvDecoder(20, (3, 48, 48))])
def test_pixels_are_between_zero_and_one_and_an_image_depends_on_its_own_features_only(decoder):
    features = torch.randn(4, 20)
    images = decoder(features)
    assert 0 <= images.min() <= images.max() <= 1
    assert torch.allclose(decoder(features[1:2]), images[1:2], atol=1e-6)


def test_dense_decoder_starts_he_normal_and_its_last_layer_glorot_normal():
    decoder = DenseDecoder(160, (1, 28, 28))
    for layer, fan_in in zip(decoder.hidden, (160, 512), strict=True):
        assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / fan_in), rel=1e-2)
        assert torch.count_nonzero(layer.bias) == 0
    assert decoder.pixels.weight.std().item() == pytest.approx(math.sqrt(2 / (1024 + 784)), rel=1e-2)


def test_convolutional_decoder_starts_glorot_uniform():
    decoder = ConvDecoder(80, (2, 48, 48))
    for layer, fans in ((decoder.seed, 80 + 64), (decoder.convs[2], 9 * 256), (decoder.pixels, 9 * 130)):
        bound = math.sqrt(6 / fans)
        assert layer.weight.abs().max().item() == pytest.approx(bound, rel=1e-2)
        assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=3e-2)
        assert torch.count_nonzero(layer.bias) == 0


def test_convolutional_decoder_refuses_other_sizes():
    with pytest.raises(
        CapsNetError, match="makes 48x48 images, not 32x48; use decoder='dense' or decoder=False"
    ):
        ConvDecoder(80, (2, 32, 48))
