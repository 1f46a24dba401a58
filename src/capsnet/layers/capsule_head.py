"""A capsule head: primary capsules, routing and class capsules on the feature maps of any network.

It is the second half of Efficient-CapsNet (figure 2): one depthwise convolution that covers the maps makes the primary
capsules, and dense capsules with a routing follow, the last layer holding one capsule per class. Any feature extractor can come
before it: `nn.Sequential(backbone, CapsuleHead(channels, (height, width), num_classes))` is a whole network.

Letters: B batch, I input capsules, J classes, D pose size, C x H x W feature maps.
"""

from itertools import pairwise
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from capsnet.functional.routing import RoutingResult
from capsnet.layers.dense import DenseCapsules
from capsnet.layers.primary import PrimaryCapsules


class CapsuleHead(nn.Module):
    """From feature maps to class capsules.

    Args:
        channels: C, the feature maps coming in.
        side: H and W, height and width of these maps.
        num_classes: J.
        primary_size: elements of a primary capsule's pose; must divide `channels`.
        class_size: D, elements of a class capsule's pose.
        kernel, stride: of the depthwise convolution; a kernel over the whole map when None.
        capsule_layers: (capsules, pose size) of each layer between primary and class capsules.
        routing_options: for DenseCapsules: `routing`, `scale`, `squash` and the routing's own.

    Shapes: (B, C, H, W) -> poses (B, J, D), activations (B, J), coupling (B, J, I).
    """

    def __init__(
        self,
        channels: int,
        side: tuple[int, int],
        num_classes: int,
        *,
        primary_size: int = 8,
        class_size: int = 16,
        kernel: int | None = None,
        stride: int = 1,
        capsule_layers: tuple[tuple[int, int], ...] = (),
        **routing_options: Any,
    ) -> None:
        super().__init__()
        height, width = (kernel, kernel) if kernel else side
        self.primary = PrimaryCapsules(channels, (height, width), size=primary_size, stride=(stride, stride))
        positions = ((side[0] - height) // stride + 1) * ((side[1] - width) // stride + 1)
        first = (channels // primary_size * positions, primary_size)
        layers = (first, *((int(n), int(d)) for n, d in capsule_layers), (num_classes, class_size))
        self.capsules = nn.ModuleList(
            DenseCapsules(*below, *above, **routing_options) for below, above in pairwise(layers)
        )

    def forward(self, features: Float[Tensor, "b c h w"]) -> RoutingResult:
        return route_through(self.capsules, self.primary(features))


def route_through(layers: nn.ModuleList, capsules: Float[Tensor, "b i k"]) -> RoutingResult:
    """What the last of several dense capsule layers gives; each takes the poses and activations of the one before."""
    first, *others = layers
    result: RoutingResult = first(capsules)
    for layer in others:
        result = layer(result.poses, result.activations)
    return result
