"""Primary capsules while training, where each depthwise filter has a single place: one weighted sum per channel.

PyTorch's convolutions take ten times as long for its gradients.

Letters: B batch, C channels, H x W maps.
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from capsnet.kernels.acceleration import accelerates
from capsnet.layers.primary import PrimaryCapsules


@accelerates(PrimaryCapsules)
def primary_capsules(layer: PrimaryCapsules, features: Float[Tensor, "b c h w"]) -> Any:
    """Gradients come in the maps' own memory layout: with another one, some of PyTorch's norms go wrong for one image."""
    conv = layer.depthwise
    if not (layer.training and type(conv) is nn.Conv2d and features.dim() == 4 and conv.bias is not None):
        return NotImplemented
    unseen = [n - k for n, k in zip(features.shape[2:], conv.kernel_size, strict=True)]
    once = all(0 <= left < step for left, step in zip(unseen, conv.stride, strict=True))
    if not once or conv.padding != (0, 0) or conv.dilation != (1, 1) or conv.groups != features.shape[1]:
        return NotImplemented
    whole = F.pad(conv.weight, (0, unseen[1], 0, unseen[0])).squeeze(1)
    if features.is_contiguous():
        numbers = (features * whole).sum(dim=(2, 3))
    else:
        numbers = (features.permute(0, 2, 3, 1) * whole.permute(1, 2, 0).contiguous()).sum(dim=(1, 2))
    return layer.as_capsules((numbers + conv.bias)[..., None, None])
