"""What Mazzia et al. 2021 report, word for word, and which of our models each row is.

Errors are percentages. Where the paper prints two numbers, the second is its own retry of others' work.
"""

from typing import NamedTuple


class ErrorRow(NamedTuple):
    """A row of the MNIST or the smallNORB table. `reconstruction`: yes, no, or None where our model has no such choice."""

    method: str
    reconstruction: str
    parameters_k: int
    reported: str
    reported_error: float
    model: str
    decoder: bool | None


MNIST = (
    ErrorRow("Our Baseline", "no", 173, "0.48", 0.48, "cnn_small", False),
    ErrorRow("Base-CapsNet", "no", 183, "0.54", 0.54, "base_capsnet", False),
    ErrorRow("Our Baseline", "yes", 173, "0.4", 0.4, "cnn_small", True),
    ErrorRow("Base-CapsNet", "yes", 183, "0.39", 0.39, "base_capsnet", True),
    ErrorRow("Efficient-CapsNet", "yes", 161, "0.26 ± 0.0002", 0.26, "efficient_capsnet", True),
    ErrorRow("Baseline (Sabour 2017)", "no", 35400, "0.39", 0.39, "cnn_sabour", None),
    ErrorRow(
        "CapsNet (Sabour 2017)",
        "yes",
        6800,
        "0.25 ± 0.005; the paper's own retry 0.36 ± 0.04",
        0.25,
        "capsnet",
        True,
    ),
    ErrorRow("Matrix-CapsNet with EM routing (Hinton 2018)", "no", 310, "0.44", 0.44, "matrix_capsnet", None),
    ErrorRow("DA-CapsNet (Huang 2020)", "yes", 7000, "0.47", 0.47, "da_capsnet", True),
    ErrorRow("AR CapsNet (Choi 2019)", "yes", 5310, "0.54", 0.54, "ar_capsnet", True),
    ErrorRow("HFCs (Byerly 2020)", "no", 1514, "0.25 ± 0.0002", 0.25, "hfc", None),
)
SMALLNORB = (
    ErrorRow("Our Baseline", "no", 198, "5.9", 5.9, "cnn_small", False),
    ErrorRow("Base-CapsNet", "no", 167, "4.58", 4.58, "base_capsnet", False),
    ErrorRow("Our Baseline", "yes", 198, "4.59", 4.59, "cnn_small", True),
    ErrorRow("Base-CapsNet", "yes", 167, "4.33", 4.33, "base_capsnet", True),
    ErrorRow("Efficient-CapsNet", "yes", 151, "2.54 ± 0.003", 2.54, "efficient_capsnet_smallnorb", True),
    ErrorRow("Baseline (Hinton 2018)", "no", 4200, "5.2", 5.2, "cnn_hinton", None),
    ErrorRow(
        "Matrix-CapsNet with EM routing (Hinton 2018)",
        "no",
        310,
        "1.8; the paper's own retry 4.4 ± 0.004",
        1.8,
        "matrix_capsnet",
        None,
    ),
    ErrorRow("CapsNet (Sabour 2017)", "yes", 6800, "3.77", 3.77, "capsnet", True),
    ErrorRow("VB-Routing (Ribeiro 2020)", "yes", 310, "1.6 ± 0.06", 1.6, "vb_capsnet", None),
)

# Table 1: thousands of parameters, 10^9 operations of one image, percent fewer operations in Efficient-CapsNet.
COST = (
    ("CapsNet (Sabour 2017)", "capsnet", 6800, 0.401, 84.96),
    ("AR CapsNet (Choi 2019)", "ar_capsnet", 5310, 0.098, 38.66),
    ("Matrix-CapsNet with EM routing (Hinton 2018)", "matrix_capsnet", 310, 0.086, 29.56),
    ("Efficient-CapsNet", "efficient_capsnet", 161, 0.06, None),
)

ENSEMBLES = (
    ("Multi-Column Deep Neural Networks (Ciregan)", 2012, 0.23),
    ("DropConnect (Wan)", 2013, 0.21),
    ("RMDL (Kowsari)", 2018, 0.18),
    ("Branching and merging CNN with HFCs (Byerly)", 2020, 0.16),
    ("Efficient-CapsNet, accuracy above 0.9973 on the test set", 2021, 0.16),
)
MULTIMNIST = "5.1 ± 0.005"
MULTIMNIST_ENSEMBLE = 3.8
SMALLNORB_ENSEMBLE = 1.23

# Percent of the variance in the first component: shifts on x, on y, rotations.
EQUIVARIANCE = (
    ("Random", None, ("25.57 ± 0.028", "25.54 ± 0.028", "13.49 ± 0.009")),
    ("CapsNet (Sabour 2017)", "capsnet", ("83.78 ± 0.006", "79.82 ± 0.009", "88.01 ± 0.006")),
    ("Efficient-CapsNet", "efficient_capsnet", ("89.69 ± 0.005", "87.28 ± 0.008", "88.75 ± 0.005")),
    ("Base-CapsNet", "base_capsnet", ("not reported",) * 3),
)
EFFICIENT_EQUIVARIANCE = {"x": 89.69, "y": 87.28, "rotation": 88.75}
