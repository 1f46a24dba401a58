"""Test labels that people dispute: what five people each saw in images whose label a network had doubted.

Northcutt, Athalye, Mueller 2021 ("Pervasive label errors in test sets destabilize machine learning benchmarks", NeurIPS)
showed 98 of MNIST's test images to five annotators each, who chose between the label, the network's guess and neither.
These are the 15 in which fewer than three of five chose the label, from their published counts (`mturk/mnist_mturk.json` of
cleanlab/label-errors). No network can be right on these by anything but chance or habit; the labels are left as they are.
"""

from typing import NamedTuple


class Votes(NamedTuple):
    """How many of five people chose what, for an image."""

    label: int
    guess: int
    """the network's"""
    for_label: int
    for_guess: int
    for_neither: int


DISPUTED: dict[str, dict[int, Votes]] = {
    "mnist": {
        947: Votes(8, 9, 0, 5, 0),
        1621: Votes(0, 6, 2, 3, 0),
        1901: Votes(9, 4, 2, 3, 0),
        2130: Votes(4, 9, 2, 2, 1),
        2462: Votes(2, 0, 0, 4, 1),
        2597: Votes(5, 3, 0, 4, 1),
        2654: Votes(6, 1, 0, 2, 3),
        3520: Votes(6, 4, 2, 0, 3),
        3558: Votes(5, 0, 1, 4, 0),
        5937: Votes(5, 3, 1, 3, 1),
        6651: Votes(0, 6, 0, 5, 0),
        6783: Votes(1, 6, 2, 3, 0),
        8527: Votes(4, 9, 2, 2, 1),
        9679: Votes(6, 3, 2, 0, 3),
        9729: Votes(5, 6, 2, 3, 0),
    }
}
