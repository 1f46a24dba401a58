"""Augmentation: the same bits for a seed, no ink lost, and each stage what the specification says."""

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from capsnet.data import Preprocessing, load_dataset
from capsnet.data.augmentation import (
    FASHION_AUGMENTATIONS,
    MNIST_AUGMENTATIONS,
    byerly,
    byerly_literal,
    byerly_map,
    crop_flip,
    draw_byerly,
    lanczos_squish,
    shift,
)


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def images() -> Tensor:
    return load_dataset("mnist").train.images[:2000]


@pytest.mark.parametrize("name", FASHION_AUGMENTATIONS)
def test_same_seed_same_bits_other_seed_others(images: Tensor, name: str) -> None:
    augment = FASHION_AUGMENTATIONS[name]
    torch.manual_seed(1)
    first = augment(images[:64], seeded(3))
    torch.manual_seed(2)
    assert torch.equal(augment(images[:64], seeded(3)), first)
    assert not torch.equal(augment(images[:64], seeded(4)), first)


@pytest.mark.parametrize("name", FASHION_AUGMENTATIONS)
def test_output_is_float_of_the_same_shape_in_zero_to_one(images: Tensor, name: str) -> None:
    out = FASHION_AUGMENTATIONS[name](images, seeded())
    assert out.shape == images.shape
    assert out.dtype == torch.float32
    assert out.is_contiguous()
    assert float(out.min()) >= 0
    assert float(out.max()) < 1


@pytest.mark.parametrize(
    ("name", "total", "of_squares"),
    [
        ("byerly", 5521.92, 217447.8),
        ("byerly_bilinear", 5481.43, 205042.8),
        ("byerly_literal", 5500.69, 208127.1),
        ("shift", 6335.40, 256793.4),
        ("shift_flip", 6335.40, 255715.6),
    ],
)
def test_the_first_batch_for_a_seed_is_known(
    images: Tensor, name: str, total: float, of_squares: float
) -> None:
    out = FASHION_AUGMENTATIONS[name](images[:64], seeded(0)).double()
    weights = torch.arange(out.numel(), dtype=torch.float64).view_as(out).remainder(97)
    assert float(out.sum()) == pytest.approx(total, rel=1e-4)
    assert float((out.square() * weights).sum()) == pytest.approx(of_squares, rel=1e-4)


@pytest.mark.parametrize("augment", [byerly, byerly_literal])
def test_a_blank_image_stays_blank_and_finite(augment) -> None:
    assert torch.equal(
        augment(torch.zeros(8, 1, 28, 28, dtype=torch.uint8), seeded()), torch.zeros(8, 1, 28, 28)
    )


def test_the_input_is_left_as_it_was(images: Tensor) -> None:
    before = images[:32].clone()
    for augment in FASHION_AUGMENTATIONS.values():
        augment(images[:32], seeded())
    assert torch.equal(images[:32], before)


def test_no_ink_leaves_the_image(images: Tensor) -> None:
    """The same maps onto a larger canvas: what falls outside the middle 28x28 would have been lost."""
    n = len(images)
    inverse = byerly_map(images, draw_byerly(n, 28, 28, seeded()))
    inverse[:, :, :2] *= 48 / 28
    grid = F.affine_grid(inverse, [n, 1, 48, 48], align_corners=False)
    for mode, most in (("bilinear", 1e-6), ("bicubic", 1e-3)):
        moved = F.grid_sample(images.float() / 256, grid, mode=mode, align_corners=False).clamp(0, 1)
        total, inside = moved.sum(dim=(1, 2, 3)), moved[..., 10:38, 10:38].sum(dim=(1, 2, 3))
        assert float(((total - inside) / total).max()) < most


def test_draws_have_the_specified_ranges_and_frequencies() -> None:
    draws = draw_byerly(40_000, 28, 28, seeded())
    assert float(draws.degrees.abs().max()) <= 30
    assert float((draws.degrees == 0).float().mean()) == pytest.approx(0.5, abs=0.01)
    turned = draws.degrees[draws.degrees != 0]
    assert float(turned.mean()) == pytest.approx(0, abs=0.3)
    assert float(turned.std()) == pytest.approx(9.9, abs=0.2)
    assert draws.backwards.float().mean(dim=0).tolist() == pytest.approx([0.5, 0.5], abs=0.01)
    assert sorted(set(draws.narrower.tolist())) == [1, 2, 3, 4, 5, 6, 7]
    assert set((draws.pad - (draws.narrower / 2).floor()).tolist()) == {0, 1}
    assert bool((draws.pad + 28 - draws.narrower <= 28).all())
    for axis in range(2):
        counts = torch.bincount(draws.erase[:, axis], minlength=28)
        assert counts[:4].sum() == counts[23:].sum() == 0
        assert float(counts[4:23].float().std() / counts[4:23].float().mean()) < 0.05


def test_erases_a_square_of_four_in_a_full_image() -> None:
    white = torch.full((50, 1, 28, 28), 255, dtype=torch.uint8)
    draws = draw_byerly(50, 28, 28, seeded(1))
    for out in (byerly(white, seeded(1)), byerly_literal(white, seeded(1))):
        for image, (column, row) in zip(out[:, 0], draws.erase.tolist(), strict=True):
            assert float(image[row : row + 4, column : column + 4].abs().max()) == 0


def test_without_rotation_literal_and_one_resampling_agree_on_where_ink_goes(images: Tensor) -> None:
    draws = draw_byerly(len(images), 28, 28, seeded())
    still = draws.degrees == 0
    one, literal = byerly(images, seeded())[still], byerly_literal(images, seeded())[still]
    assert float((one - literal).square().mean().sqrt()) < 0.05
    place = torch.arange(28.0)
    for axis in (2, 3):
        centres = [
            ((x.sum(dim=5 - axis)[:, 0] * place).sum(1) / x.sum(dim=(1, 2, 3))) for x in (one, literal)
        ]
        assert float((centres[0] - centres[1]).abs().max()) < 0.3


def test_literal_shift_moves_as_far_as_the_margins_allow() -> None:
    """One bright pixel, turned or not, always stays in the image."""
    dot = torch.zeros(3000, 1, 28, 28, dtype=torch.uint8)
    dot[:, 0, 20, 5] = 255
    out = byerly_literal(dot, seeded())
    draws = draw_byerly(3000, 28, 28, seeded())
    still = draws.degrees.trunc() == 0
    erased = out[still].sum(dim=(1, 2, 3)) == 0
    assert float(erased.float().mean()) < 0.1
    rows = out[still][~erased].sum(dim=3)[:, 0].argmax(dim=1)
    assert int(rows.min()) <= 2
    assert int(rows.max()) == 27


def test_lanczos_rows_sum_to_one_and_keep_a_constant() -> None:
    squish = lanczos_squish(28)
    for narrower in range(1, 8):
        sums = squish[narrower - 1].sum(dim=1)
        torch.testing.assert_close(sums[: 28 - narrower], torch.ones(28 - narrower))
        assert float(sums[28 - narrower :].abs().sum()) == 0


def test_shift_moves_by_whole_pixels_with_zeros_coming_in(images: Tensor) -> None:
    out = shift(images[:500], seeded())
    padded = F.pad(images[:500].float() / 256, (2, 2, 2, 2))
    windows = torch.stack([padded[..., y : y + 28, x : x + 28] for y in range(5) for x in range(5)])
    matches = (windows == out).all(dim=(2, 3, 4))
    assert bool(matches.any(dim=0).all())
    counts = matches.float().mean(dim=1)
    assert float(counts.min()) > 0.01


def test_flip_mirrors_half_of_the_images(images: Tensor) -> None:
    plain = shift(images, seeded(), pixels=0)
    mirrored = shift(images, seeded(), pixels=0, flip=True)
    same = (mirrored == plain).all(dim=(1, 2, 3))
    turned = (mirrored == plain.flip(3)).all(dim=(1, 2, 3))
    assert bool((same | turned).all())
    assert float(turned.float().mean()) == pytest.approx(0.5, abs=0.05)


def test_shift_takes_colours_and_oblong_images() -> None:
    images = torch.arange(2 * 3 * 20 * 30).remainder(256).to(torch.uint8).view(2, 3, 20, 30)
    assert shift(images, seeded(), pixels=3, flip=True).shape == (2, 3, 20, 30)


def test_fashion_has_its_own_default_and_mnist_byerly() -> None:
    assert next(iter(FASHION_AUGMENTATIONS)) == "shift_flip"
    assert next(iter(MNIST_AUGMENTATIONS)) == "byerly"


def test_crop_flip_is_one_of_the_windows_of_the_mirrored_border() -> None:
    images = torch.randint(256, (40, 3, 16, 24), generator=seeded(), dtype=torch.uint8)
    out = 255 * crop_flip(images, seeded(1), preprocessing=Preprocessing())
    padded = F.pad(images.float(), (3, 3, 2, 2), mode="reflect")
    windows = padded.unfold(2, 16, 1).unfold(3, 24, 1).permute(2, 3, 0, 1, 4, 5).flatten(0, 1)
    both = torch.stack([windows, windows.flip(-1)])
    matches = torch.isclose(both, out, atol=1e-3).flatten(3).all(dim=3)
    assert bool((matches.sum(dim=(0, 1)) == 1).all())
    assert bool(matches.any(dim=2).any(dim=1).all())  # mirrored and not
    assert int(matches.any(dim=2).any(dim=0).sum()) > 20  # of 5 x 7 places


def test_crop_flip_covers_a_square_with_the_pictures_mean() -> None:
    images = torch.randint(256, (60, 3, 16, 24), generator=seeded(), dtype=torch.uint8)
    plain = crop_flip(images, seeded(1), preprocessing=Preprocessing())
    out = crop_flip(images, seeded(1), preprocessing=Preprocessing(), cut=3 / 8)
    changed = (out != plain).any(dim=1)
    rows, columns = changed.any(dim=2).sum(dim=1), changed.any(dim=1).sum(dim=1)
    assert int(rows.max()) == int(columns.max()) == 6
    assert int(torch.minimum(rows, columns).min()) < 6  # at the border
    mean = plain.mean(dim=(2, 3), keepdim=True).expand_as(out)
    assert torch.allclose(
        out[changed[:, None].expand_as(out)], mean[changed[:, None].expand_as(out)], atol=1e-5
    )
