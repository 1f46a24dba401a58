"""Backbones: feature extractors by name, and the encoder that puts capsules on one.

A backbone is any module from images to feature maps. `create_model("efficient_capsnet", image_shape=(3, 64, 64),
backbone=module)` takes one as it is. A registered one, a function `(image_shape) -> nn.Module`, is given by its name, and then
weights files can say how to build the model again.

Letters: B batch, C x H x W image, F x H2 x W2 feature maps.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError, unknown_name
from capsnet.layers.capsule_head import CapsuleHead
from capsnet.models.base import Output
from capsnet.registry import ImageShape

_BACKBONES: dict[str, Callable[[ImageShape], nn.Module]] = {}


def register_backbone(build: Callable[[ImageShape], nn.Module]) -> Callable[[ImageShape], nn.Module]:
    """Register the function under its own name, for `create_model(..., backbone="name")`."""
    _BACKBONES[build.__name__] = build
    return build


def build_backbone(backbone: str | nn.Module, image_shape: ImageShape) -> nn.Module:
    """The module itself, or the one registered under that name."""
    if isinstance(backbone, nn.Module):
        return backbone
    if backbone not in _BACKBONES:
        raise unknown_name("backbone", backbone, _BACKBONES)
    return _BACKBONES[backbone](image_shape)


def feature_shape(backbone: nn.Module, image_shape: ImageShape) -> tuple[int, int, int]:
    """F, H2 and W2: what the backbone makes of one black image."""
    like = next(backbone.parameters(), torch.empty(0))
    training = backbone.training
    backbone.eval()
    try:
        with torch.no_grad():
            features = backbone(torch.zeros(1, *image_shape, device=like.device))
    except (RuntimeError, ValueError, TypeError) as error:
        shape = "x".join(map(str, image_shape))
        reason = str(error).splitlines()[0].rstrip(".")
        raise CapsNetError(f"The backbone does not take images of {shape}: {reason}.") from error
    finally:
        backbone.train(training)
    if not isinstance(features, Tensor) or features.ndim != 4 or 0 in features.shape:
        got = f"shape {tuple(features.shape)}" if isinstance(features, Tensor) else type(features).__name__
        raise CapsNetError(
            f"A backbone gives feature maps of shape (B, channels, height, width); this one gives {got}: "
            "leave out its pooling and its classifier."
        )
    return int(features.shape[1]), int(features.shape[2]), int(features.shape[3])


class BackboneEncoder(nn.Module):
    """Image to class capsules: a backbone, then a `CapsuleHead` that fits its feature maps.

    Args:
        head_options: for CapsuleHead: `primary_size`, `class_size`, `capsule_layers`, `routing` and the routing's own.
    """

    def __init__(
        self, backbone: str | nn.Module, image_shape: ImageShape, num_classes: int, **head_options: Any
    ) -> None:
        super().__init__()
        self.backbone = build_backbone(backbone, image_shape)
        channels, *side = feature_shape(self.backbone, image_shape)
        self.head = CapsuleHead(channels, (side[0], side[1]), num_classes, **head_options)

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        poses, activations, coupled = self.head(self.backbone(images))
        return Output(poses, activations, coupled if coupling else None)
