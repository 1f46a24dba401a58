"""MultiMNIST: pairs of different classes, shifted and overlaid, the same stream for a seed."""

import itertools

import pytest
import torch
from torch import Generator, Tensor

from capsnet.data import load_dataset
from capsnet.data.base import Batch, DataSet, Split
from capsnet.data.pairs import PairDataSet, draw_apart, draw_partners, place
from capsnet.errors import CapsNetError

FIRST_PARTNERS = [9, 7, 3, 9, 5, 8, 2, 4]
FIRST_TOTAL = 11026.45


@pytest.fixture(scope="module")
def multimnist() -> PairDataSet:
    data = load_dataset("multimnist")
    assert isinstance(data, PairDataSet)
    return data


def some(split: Split, n: int) -> Split:
    return split.select(torch.arange(n))


def training(data: DataSet, n: int = 64, seed: int = 0) -> Batch:
    return data.training_batch(some(data.train, n), "none", Generator().manual_seed(seed))


def test_a_batch_has_two_classes_two_targets_and_two_originals(multimnist: PairDataSet) -> None:
    batch = training(multimnist)
    assert batch.images.shape == (64, 1, 36, 36)
    assert batch.originals.shape == (64, 2, 1, 36, 36)
    assert batch.classes.shape == (64, 2)
    assert bool((batch.classes[:, 0] != batch.classes[:, 1]).all())
    assert torch.equal(batch.classes[:, 0], multimnist.train.labels[:64])
    assert torch.equal(batch.targets.sum(dim=1), torch.full((64,), 2.0))
    assert torch.equal(batch.targets.gather(1, batch.classes), torch.ones(64, 2))


def test_the_image_is_the_sum_of_its_digits_cut_at_one(multimnist: PairDataSet) -> None:
    batch = training(multimnist)
    torch.testing.assert_close(batch.images, batch.originals.sum(dim=1).clamp_max(1))
    assert float(batch.images.max()) == 1
    mass = batch.originals[:, 0].sum(dim=(1, 2, 3)) * 255
    torch.testing.assert_close(mass, multimnist.train.images[:64].float().sum(dim=(1, 2, 3)))


def test_same_seed_same_bits_and_a_known_first_batch(multimnist: PairDataSet) -> None:
    torch.manual_seed(1)
    first = training(multimnist, seed=0)
    torch.manual_seed(2)
    again = training(multimnist, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(training(multimnist, seed=1).images, first.images)
    assert first.classes[:8, 1].tolist() == FIRST_PARTNERS
    assert float(first.images.double().sum()) == pytest.approx(FIRST_TOTAL, abs=0.1)


def test_partners_are_uniform_over_the_other_classes() -> None:
    pool = torch.tensor([0] * 10 + [1] * 30 + [2] * 60)[torch.randperm(100)]
    labels = torch.tensor([0, 1, 2]).repeat(20_000)
    partners = draw_partners(labels, pool, Generator().manual_seed(0))
    assert bool((pool[partners] != labels).all())
    for label in range(3):
        counts = torch.bincount(partners[labels == label], minlength=100)
        others = counts[pool != label].float()
        assert float(others.min()) > 0
        assert float((others / others.mean() - 1).abs().max()) < 0.25


def test_shifts_cover_every_offset_up_to_the_largest(multimnist: PairDataSet) -> None:
    dot = torch.zeros(1, 1, 28, 28, dtype=torch.uint8)
    dot[..., 14, 14] = 255
    for x, y in itertools.product((-4, 0, 4), repeat=2):
        placed = place(dot, torch.tensor([[x, y]]))
        assert placed.nonzero()[0, 2:].tolist() == [18 + y, 18 + x]
    corner = torch.full((1, 1, 28, 28), 9, dtype=torch.uint8)
    assert int(place(corner, torch.tensor([[-6, 0]]))[0, 0, 10].count_nonzero()) == 26


def bounding(image: Tensor) -> tuple[int, int, int, int]:
    rows, columns = image.any(dim=1).nonzero().flatten(), image.any(dim=0).nonzero().flatten()
    return int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1


def test_the_digits_boxes_overlap_by_about_four_fifths(multimnist: PairDataSet) -> None:
    batch = training(multimnist, 512)
    shares = []
    for a, b in (pair[:, 0] > 0 for pair in batch.originals):
        (t0, b0, l0, r0), (t1, b1, l1, r1) = bounding(a), bounding(b)
        common = max(0, min(b0, b1) - max(t0, t1)) * max(0, min(r0, r1) - max(l0, l1))
        shares.append(common / min((b0 - t0) * (r0 - l0), (b1 - t1) * (r1 - l1)))
    assert sum(shares) / len(shares) == pytest.approx(0.8, abs=0.08)


def test_the_test_stream_does_not_depend_on_the_batch_size(multimnist: PairDataSet) -> None:
    split = some(multimnist.test, 100)
    small, large = (list(multimnist.test_pairs(split, 3, size)) for size in (7, 100))
    assert [len(batch.images) for batch in large] == [100, 100, 100]
    for field in range(4):
        assert torch.equal(torch.cat([b[field] for b in small]), torch.cat([b[field] for b in large]))
    assert not torch.equal(large[0].images, large[1].images)


def test_test_images_come_in_several_pairs_and_others_in_one() -> None:
    data = load_dataset("multimnist", pairs=2)
    assert sum(len(b.images) for b in data.evaluation_batches(data.test, 500)) == 20_000
    assert sum(len(b.images) for b in data.evaluation_batches(some(data.train, 300), 250)) == 300
    assert data.views == 10


def test_a_batch_of_one_class_still_gets_partners(multimnist: PairDataSet) -> None:
    alone = multimnist.train.select(torch.tensor([5]))
    batch = multimnist.training_batch(alone, "none", Generator().manual_seed(0))
    assert int(batch.classes[0, 0]) != int(batch.classes[0, 1])
    with pytest.raises(CapsNetError, match="at least two classes"):
        next(multimnist.evaluation_batches(alone, 10))


@pytest.mark.parametrize(
    ("options", "message"), [({"shift": 9}, "0 to 8 pixels"), ({"pairs": 0}, "at least one")]
)
def test_impossible_options_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(CapsNetError, match=message):
        load_dataset("multimnist", **options)


def test_both_protocols_have_names_and_a_network_may_be_tested_by_either() -> None:
    sabour, authors = (load_dataset("multimnist", protocol=name) for name in ("sabour", "authors"))
    assert isinstance(sabour, PairDataSet)
    assert isinstance(authors, PairDataSet)
    assert (sabour.shift, authors.shift) == (4, 6)
    split = some(authors.test, 30)
    rounds = list(authors.test_pairs(split, 3, 30))
    assert all(bool((batch.classes[:, 0] != batch.classes[:, 1]).all()) for batch in rounds)
    # The first digit is at one place in all its pairs there, and the other is anew in each.
    assert torch.equal(rounds[0].originals[:, 0], rounds[2].originals[:, 0])
    assert not torch.equal(rounds[0].originals[:, 1], rounds[2].originals[:, 1])
    usual = list(sabour.test_pairs(split, 2, 30))
    assert not torch.equal(usual[0].originals[:, 0], usual[1].originals[:, 0])
    plain = load_dataset("multimnist")
    assert isinstance(plain, PairDataSet)
    assert torch.equal(next(plain.test_pairs(split, 1, 30)).images, usual[0].images)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"protocol": "authors", "shift": 4}, "moves digits by 6 pixels, not by 4: say shift=6"),
        ({"protocol": "hinton"}, "no protocol 'hinton' of MultiMNIST"),
        ({"digits": 3}, "1 digit or 2, not 3"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict, sentence: str) -> None:
    with pytest.raises(CapsNetError, match=sentence):
        load_dataset("multimnist", **options)


def test_single_digits_are_in_the_places_of_pairs() -> None:
    single = load_dataset("multimnist", digits=1)
    batch = training(single)
    assert batch.images.shape == (64, 1, 36, 36)
    assert torch.equal(batch.classes, single.train.labels[:64, None])
    assert torch.equal(batch.images, batch.originals[:, 0])
    assert torch.equal(batch.targets.sum(dim=1), torch.ones(64))
    assert [len(b.images) for b in single.evaluation_batches(some(single.train, 20), 16)] == [16, 4]


def test_a_curriculum_begins_with_digits_apart(multimnist: PairDataSet) -> None:
    split = some(multimnist.train, 256)
    overlap = {}
    for name in ("none", "apart", "both"):
        multimnist.check_augmentation(name)
        batch = multimnist.training_batch(split, name, Generator().manual_seed(0))
        both_inked = (batch.originals > 0.2).all(dim=1).float()
        overlap[name] = float(both_inked.sum())
    assert overlap["apart"] < 0.7 * overlap["none"]
    assert 0.6 * overlap["none"] < overlap["both"] < overlap["none"]
    shifts = draw_apart(500, 4, Generator().manual_seed(0))
    assert int((shifts[:, 0] * shifts[:, 1]).max()) < 0
    assert sorted(shifts.abs().unique().tolist()) == [2, 3, 4]
    with pytest.raises(CapsNetError, match=r"by pairing them \(none, apart, both\)"):
        multimnist.check_augmentation("shift")
