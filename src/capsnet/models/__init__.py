"""The systems, one a file; importing this registers them all."""

from capsnet.models import base_capsnet, cnn_hinton, cnn_sabour, cnn_small, efficient_capsnet, hfc
from capsnet.models.base import CapsuleModel, Output, SoftmaxModel

__all__ = [
    "CapsuleModel",
    "Output",
    "SoftmaxModel",
    "base_capsnet",
    "cnn_hinton",
    "cnn_sabour",
    "cnn_small",
    "efficient_capsnet",
    "hfc",
]
