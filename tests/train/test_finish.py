import torch

from capsnet.data.base import Split
from capsnet.train.finish import sample


def test_the_training_error_is_taken_from_all_of_the_split_by_chance():
    split = Split(torch.zeros(6000, 1, 1, 1, dtype=torch.uint8), torch.arange(6000))
    chosen = sample(split, 1000).labels
    assert len(set(chosen.tolist())) == 1000
    assert chosen.tolist() == sorted(chosen.tolist())
    assert torch.equal(chosen, sample(split, 1000).labels)
    # Neither stretches nor the odd or the even ones have more than chance gives them.
    assert all(60 < int(((chosen >= 500 * n) & (chosen < 500 * (n + 1))).sum()) < 110 for n in range(12))
    assert 440 < int((chosen % 2).sum()) < 560
    assert sample(split, 9999).labels.tolist() == list(range(6000))
