"""The systems, one a file; importing this registers them all."""

from capsnet.models import (
    ar_capsnet,
    base_capsnet,
    capsnet,
    cnn_hinton,
    cnn_sabour,
    cnn_small,
    da_capsnet,
    efficient_capsnet,
    hfc,
    matrix_capsnet,
    mixture,
    residual_capsnet,
    vb_capsnet,
)
from capsnet.models.backbones import register_backbone
from capsnet.models.base import CapsuleModel, Output, SoftmaxModel
from capsnet.models.mixture import mix

__all__ = [
    "CapsuleModel",
    "Output",
    "SoftmaxModel",
    "ar_capsnet",
    "base_capsnet",
    "capsnet",
    "cnn_hinton",
    "cnn_sabour",
    "cnn_small",
    "da_capsnet",
    "efficient_capsnet",
    "hfc",
    "matrix_capsnet",
    "mix",
    "mixture",
    "register_backbone",
    "residual_capsnet",
    "vb_capsnet",
]
