"""Initial values as the authors' framework draws them, which differ from PyTorch's defaults.

"Truncated" means redrawn beyond two deviations, then widened by 1/0.8796 so that the deviation asked for is what comes out.
"""

import math

import torch
from torch import Tensor, nn

_DEVIATION_OF_TRUNCATED_NORMAL = 0.87962566103423978


def truncated_normal_(tensor: Tensor, *, std: float) -> Tensor:
    """A normal cut at two deviations whose own deviation is `std`."""
    wide = std / _DEVIATION_OF_TRUNCATED_NORMAL
    return nn.init.trunc_normal_(tensor, std=wide, a=-2 * wide, b=2 * wide)


def he_normal_(layer: nn.Conv2d | nn.Linear) -> None:
    """Truncated normal of variance 2/fan-in; bias zero."""
    fan_in = layer.weight[0].numel()
    truncated_normal_(layer.weight, std=math.sqrt(2 / fan_in))
    zero_bias_(layer)


def glorot_normal_(layer: nn.Linear) -> None:
    """Truncated normal of variance 2/(fan-in + fan-out); bias zero."""
    truncated_normal_(layer.weight, std=math.sqrt(2 / sum(layer.weight.shape)))
    zero_bias_(layer)


def glorot_uniform_(layer: nn.Conv2d | nn.Linear) -> None:
    """Uniform of variance 2/(fan-in + fan-out); bias zero."""
    nn.init.xavier_uniform_(layer.weight)
    zero_bias_(layer)


def zero_bias_(layer: nn.Conv2d | nn.Linear) -> None:
    """Zero bias, where there is one."""
    if layer.bias is not None:
        with torch.no_grad():
            layer.bias.zero_()
