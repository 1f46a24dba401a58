"""Building blocks, one idea per file; each works inside anyone's own nn.Module."""

from capsnet.layers.capsule_head import CapsuleHead
from capsnet.layers.conv_capsules import ClassCapsules, ConvCapsules, MatrixPrimaryCapsules
from capsnet.layers.conv_primary import ConvPrimaryCapsules
from capsnet.layers.decoders import ConvDecoder, DenseDecoder, mask_poses
from capsnet.layers.dense import DenseCapsules
from capsnet.layers.ink import EvenInk
from capsnet.layers.mixed_norm import MixedNorm
from capsnet.layers.primary import PrimaryCapsules
from capsnet.layers.routing import Routing
from capsnet.layers.views import Views

__all__ = [
    "CapsuleHead",
    "ClassCapsules",
    "ConvCapsules",
    "ConvDecoder",
    "ConvPrimaryCapsules",
    "DenseCapsules",
    "DenseDecoder",
    "EvenInk",
    "MatrixPrimaryCapsules",
    "MixedNorm",
    "PrimaryCapsules",
    "Routing",
    "Views",
    "mask_poses",
]
