"""Mixup: images and targets are blended alike."""

import pytest
import torch
from torch import Generator

from capsnet.data import DataSet, Preprocessing, Split
from capsnet.data.mixing import LARGEST_SHARE, without_mixup
from capsnet.errors import CapsNetError

LABELS = torch.arange(64) % 4
# The brightness of an image says which one it is.
IMAGES = torch.arange(64, dtype=torch.uint8)[:, None, None, None].expand(64, 3, 8, 8).contiguous()
SPLIT = Split(IMAGES, LABELS)
DATA = DataSet("mine", SPLIT, SPLIT, ("a", "b", "c", "d"), Preprocessing(), (3, 8, 8))


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def test_the_word_is_taken_out_of_the_list() -> None:
    assert without_mixup("crop, mixup,flip") == ("crop,flip", True)
    assert without_mixup("mixup") == ("none", True)
    assert without_mixup("crop_flip") == ("crop_flip", False)


def test_images_and_targets_have_the_same_shares() -> None:
    batch = DATA.training_batch(SPLIT, "mixup", seeded())
    own = torch.nn.functional.one_hot(LABELS, 4).float()
    pixel = 255 * batch.images[:, 0, 0, 0]
    found = 0
    for n in range(64):
        others = [
            m for m in range(64) if LABELS[m] != LABELS[n] and torch.isclose(
                pixel[n], n + (m - n) * (1 - batch.targets[n, LABELS[n]]), atol=1e-3)
        ]  # fmt: skip
        assert batch.targets[n].sum() == pytest.approx(1)
        if not torch.equal(batch.targets[n], own[n]):
            found += 1
            assert any(batch.targets[n, LABELS[m]] > 0 for m in others)
    assert found > 32


def test_the_larger_share_is_decoded_as_its_own_picture() -> None:
    batch = DATA.training_batch(SPLIT, "mixup", seeded())
    assert torch.equal(batch.classes[:, 0], LABELS)
    assert torch.equal(batch.targets.argmax(dim=1), LABELS)
    assert float(batch.targets.gather(1, batch.classes).min()) >= 1 - LARGEST_SHARE - 1e-6
    assert torch.equal(batch.originals[:, 0], IMAGES / 255)


def test_same_seed_same_bits_and_other_words_come_first() -> None:
    first = DATA.training_batch(SPLIT, "brightness,mixup", seeded())
    again = DATA.training_batch(SPLIT, "mixup,brightness", seeded())
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.originals, DATA.training_batch(SPLIT, "brightness", seeded()).originals)
    assert not torch.equal(first.images, DATA.training_batch(SPLIT, "brightness,mixup", seeded(1)).images)


def test_a_wrong_word_beside_it_is_refused() -> None:
    DATA.check_augmentation("mixup")
    with pytest.raises(CapsNetError, match="'flop' for 'mine'; did you mean 'flip'"):
        DATA.check_augmentation("mixup,flop")
