import torch

from capsnet.train.order import balanced_order, epoch_order


def test_an_epoch_shows_every_image_as_often_as_the_data_set_says():
    order = epoch_order(0, 0, 10, 3)
    assert sorted(order.tolist()) == sorted(list(range(10)) * 3)
    assert order.tolist() != epoch_order(0, 1, 10, 3).tolist()


LABELS = torch.tensor([0] * 50 + [1] * 7 + [3] * 3)  # no image of class 2


def test_a_balanced_epoch_shows_every_class_equally_often():
    shown = LABELS[balanced_order(0, 0, LABELS, 1)].bincount(minlength=4)
    assert shown.tolist() == [20, 20, 0, 20]
    uneven = LABELS[balanced_order(0, 0, LABELS[:59], 1)].bincount()
    assert sorted(uneven[uneven > 0].tolist()) == [19, 20, 20]


def test_a_balanced_epoch_shows_images_of_one_class_equally_often():
    counts = balanced_order(0, 0, LABELS, 2).bincount(minlength=60)
    for label in (0, 1, 3):
        own = counts[label == LABELS]
        assert int(own.max() - own.min()) <= 1


def test_balanced_epochs_follow_from_the_seed_and_differ():
    first = balanced_order(0, 0, LABELS, 1)
    assert torch.equal(first, balanced_order(0, 0, LABELS, 1))
    assert not torch.equal(first, balanced_order(0, 1, LABELS, 1))
    assert not torch.equal(first, balanced_order(1, 0, LABELS, 1))
