import torch

from capsnet.data.base import Split
from capsnet.train.finish import evenly


def test_the_training_error_is_taken_from_all_of_the_split():
    split = Split(torch.zeros(10, 1, 1, 1, dtype=torch.uint8), torch.arange(10))
    assert evenly(split, 4).labels.tolist() == [0, 2, 5, 7]
    assert evenly(split, 99).labels.tolist() == list(range(10))
