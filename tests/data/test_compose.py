"""Augmentation by a list of words."""

import pytest
import torch
from torch import Generator

from capsnet.data import DataSet, Split
from capsnet.data.compose import MOVING, OPERATIONS, Compose, parse_operations
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError

IMAGES = torch.randint(60, 200, (32, 3, 40, 30), generator=Generator().manual_seed(0)).to(torch.uint8)
# Noise has no neighbours that look alike; a smooth picture shows where things go.
RAMP = torch.linspace(50, 200, 30).expand(32, 3, 40, 30).to(torch.uint8)


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


@pytest.mark.parametrize("name", [*OPERATIONS, "shift,rotate,flip", ",".join(OPERATIONS)])
def test_each_changes_images_within_range_and_repeats_for_a_seed(name: str) -> None:
    operations = parse_operations(name)
    assert operations is not None
    augment = Compose(operations, Preprocessing())
    out = augment(IMAGES, seeded())
    assert out.shape == IMAGES.shape
    assert out.dtype == torch.float32
    assert 0 <= float(out.min()) <= float(out.max()) <= 1
    assert not torch.allclose(out, IMAGES / 255, atol=1e-3)
    assert torch.equal(out, augment(IMAGES, seeded()))
    assert not torch.equal(out, augment(IMAGES, seeded(1)))


def test_flip_mirrors_half_and_leaves_the_others() -> None:
    out = Compose(("flip",), Preprocessing())(IMAGES.repeat(20, 1, 1, 1), seeded())
    plain = IMAGES.repeat(20, 1, 1, 1) / 255
    same = torch.isclose(out, plain, atol=1e-4).all(dim=3).all(dim=2).all(dim=1)
    mirrored = torch.isclose(out, plain.flip(3), atol=1e-4).all(dim=3).all(dim=2).all(dim=1)
    assert bool((same ^ mirrored).all())
    assert float(mirrored.float().mean()) == pytest.approx(0.5, abs=0.08)


def test_vertical_flip_mirrors_half_and_leaves_the_others() -> None:
    images = IMAGES.repeat(20, 1, 1, 1)
    out = Compose(("flip_vertical",), Preprocessing())(images, seeded())
    same = torch.isclose(out, images / 255, atol=1e-4).flatten(1).all(dim=1)
    mirrored = torch.isclose(out, images.flip(2) / 255, atol=1e-4).flatten(1).all(dim=1)
    assert bool((same ^ mirrored).all())
    assert float(mirrored.float().mean()) == pytest.approx(0.5, abs=0.08)


def test_a_crop_is_a_window_of_the_image_seen_larger() -> None:
    x, y = torch.meshgrid(torch.arange(30.0), torch.arange(40.0), indexing="xy")
    image = torch.stack([x * 6, y * 5, x + y]).to(torch.uint8)
    out = 255 * Compose(("crop",), Preprocessing())(image.expand(64, 3, 40, 30), seeded())
    inner = out[:, :2, 8:-8, 6:-6]  # away from the border, where pixels of a ramp are interpolated exactly
    width = (inner[:, 0, :, -1] - inner[:, 0, :, 0]) / 6 / 17
    height = (inner[:, 1, -1] - inner[:, 1, 0]) / 5 / 23
    assert float((width - width[:, :1]).abs().max()) < 1e-2
    width, height = width[:, 0], height[:, 0]
    assert 0.39 < float((width * height).min()) < 0.55
    assert float(torch.stack([width, height]).max()) <= 1.001
    assert 1.2 < float((width / height).max()) <= 1.34
    assert float(inner[:, 0].amin(dim=(1, 2)).std()) > 3  # it moves about


def test_jitter_leaves_grey_pictures_grey_and_changes_hues_of_others() -> None:
    grey = IMAGES[:, :1].expand(-1, 3, -1, -1)
    out = Compose(("jitter",), Preprocessing())(grey, seeded())
    assert torch.allclose(out, out[:, :1].expand_as(out), atol=1e-5)
    red = torch.tensor([150, 90, 90], dtype=torch.uint8)[None, :, None, None].expand(64, 3, 8, 8)
    out = Compose(("jitter",), Preprocessing())(red, seeded())
    assert float((out[:, 1] - out[:, 2]).abs().amax(dim=(1, 2)).min()) > 0
    assert bool((out[:, 0] > torch.maximum(out[:, 1], out[:, 2])).all())


def test_jitter_takes_pictures_of_one_channel() -> None:
    assert Compose(("jitter",), Preprocessing())(IMAGES[:, :1], seeded()).shape == (32, 1, 40, 30)


def test_cutout_covers_a_square_of_half_the_side_with_the_mean() -> None:
    images = IMAGES[:1].expand(256, 3, 40, 30)
    out = Compose(("cutout",), Preprocessing())(images, seeded())
    changed = (out - images / 255).abs().amax(dim=1) > 1e-4
    rows, columns = changed.any(dim=2).sum(dim=1), changed.any(dim=1).sum(dim=1)
    assert int(rows.max()) == int(columns.max()) == 15
    assert int(rows.min()) < 15  # at the border
    mean = images[0].float().mean(dim=(1, 2)) / 255
    assert torch.allclose(out[0][:, changed[0]], mean[:, None].expand(3, int(changed[0].sum())), atol=1e-4)


def test_the_order_of_the_list_does_not_matter() -> None:
    first, second = (
        Compose(tuple(t.split(",")), Preprocessing())
        for t in ("shift,contrast,rotate", "rotate,shift,contrast")
    )
    assert torch.equal(first(IMAGES, seeded()), second(IMAGES, seeded()))


@pytest.mark.parametrize("name", [n for n in MOVING if n != "flip"])
def test_moving_is_gentle_and_brings_in_no_black_border(name: str) -> None:
    out = Compose((name,), Preprocessing())(RAMP, seeded()) * 255
    assert float(out.min()) >= 49.9
    assert float((out - RAMP).abs().mean()) < 20


def test_a_black_ground_stays_black() -> None:
    dark = Preprocessing(light_on_dark=True)
    white = torch.full((16, 1, 28, 28), 255, dtype=torch.uint8)
    assert float(Compose(("shift",), dark)(white, seeded()).min()) == 0
    assert float(Compose(("erase",), dark)(white, seeded()).amin(dim=(1, 2, 3)).max()) == 0


def test_brightness_and_contrast_are_the_same_for_a_whole_image() -> None:
    out = Compose(("brightness",), Preprocessing())(IMAGES, seeded()) * 255
    shift = out - IMAGES
    assert float((shift - shift.mean(dim=(1, 2, 3), keepdim=True)).abs().max()) < 1e-2
    assert 25 < float(shift.abs().max()) <= 255 * 0.15


def test_the_rest_is_the_preprocessing_of_evaluation() -> None:
    prepared = Preprocessing(mean=(0.5,) * 3, std=(0.2,) * 3, resize=(20, 20), crop=(16, 16))
    assert Compose(("shift",), prepared)(IMAGES, seeded()).shape == (32, 3, 16, 16)


def test_a_data_set_takes_lists_and_refuses_other_words() -> None:
    labels = torch.arange(32) % 2
    split = Split(IMAGES, labels)
    data = DataSet("mine", split, split, ("a", "b"), Preprocessing(), (3, 40, 30))
    data.check_augmentation("none")
    data.check_augmentation("shift, rotate")
    batch = data.training_batch(split, "flip,erase", seeded())
    assert torch.equal(batch.originals[:, 0], batch.images)
    for text in ("shift,rotaet", "rotaet"):
        with pytest.raises(CapsNetError, match="'rotaet' for 'mine'; did you mean 'rotate'"):
            data.check_augmentation(text)
    with pytest.raises(CapsNetError, match="There is no augmentation"):
        data.training_batch(split, "", seeded())
