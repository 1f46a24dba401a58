"""What a model costs: parameters, and operations counted while it runs.

The paper's "OPS" are 2 x multiply-accumulates of one image through the encoder. torch's own counter sees matrix products and
convolutions, and einsum's contractions are among them.
"""

from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from capsnet.evaluate.mode import evaluating
from capsnet.models.base import CapsuleModel
from capsnet.registry import create_model


def count_parameters(module: nn.Module | None) -> int:
    """Count trainable parameters; running statistics are not included."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad) if module else 0


@torch.no_grad()
def count_operations(model: CapsuleModel) -> int:
    """Count 2 x multiply-accumulates of one image through the encoder."""
    counter = FlopCounterMode(display=False)
    with evaluating(model), counter:
        model(torch.zeros(1, *model.image_shape, device=next(model.parameters()).device))
    return int(counter.get_total_flops())


def describe_model(name: str, **shape: Any) -> dict[str, Any]:
    """Return a model's shape and cost, as `capsnet models --json` prints them."""
    model = create_model(name, **shape)
    return {
        "name": name,
        "image_shape": list(model.image_shape),
        "num_classes": model.architecture.num_classes,
        "encoder_parameters": count_parameters(model.encoder),
        "decoder_parameters": count_parameters(model.decoder),
        "operations": count_operations(model),
    }
