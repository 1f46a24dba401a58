"""The systems, one a file; importing this registers them all."""

from capsnet.models import efficient_capsnet
from capsnet.models.base import CapsuleModel, Output

__all__ = ["CapsuleModel", "Output", "efficient_capsnet"]
