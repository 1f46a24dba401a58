"""Convolutional capsules with matrices for poses: the layers of EM and of variational Bayes routing.

Hinton, Sabour, Frosst 2018, sections 4 and 5; Ribeiro et al. 2020. A capsule is a 4x4 pose matrix and an activation. Each
parent sees the children of a small window; a child's vote is its pose times a learned 4x4 matrix; the assignment of a child
sums to one over all parents at all positions that see it. The class capsules see every position through the same matrices,
so a vote there also gets the position added to its first two elements.

Letters: B batch, C child types, J parent types, H x W children's map, P positions of the parents, I = C x kernel x kernel
children that a position sees, D = 16 pose elements.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from capsnet.errors import CapsNetError
from capsnet.functional.routing import ROUTINGS, RoutingResult, get_routing
from capsnet.functional.routing.matrix_votes import MatrixVotes
from capsnet.functional.routing.mixture import Normalise, over_parents
from capsnet.functional.routing.positions import OverPositions, seen_children
from capsnet.layers.routing import Routing

SIDE = 4
SIZE = SIDE * SIDE


class MatrixPrimaryCapsules(nn.Module):
    """A 1x1 convolution without bias to a pose and an activation of each type at every position.

    Args:
        channels: feature maps coming in.
        types: capsules at each position.
        normalised: batch-normalises poses and activation logits, one affine pair for each type (VB), instead of subtracting
            one from the logits (EM).

    Shapes: (B, channels, H, W) -> poses (B, C, D, H, W), activations (B, C, H, W).
    """

    def __init__(self, channels: int, types: int, *, normalised: bool = False) -> None:
        super().__init__()
        self.types = types
        self.conv = nn.Conv2d(channels, types * (SIZE + 1), 1, bias=False)
        self.pose_norm = nn.BatchNorm3d(types) if normalised else None
        self.activation_norm = nn.BatchNorm2d(types) if normalised else None

    def forward(
        self, features: Float[Tensor, "b f h w"]
    ) -> tuple[Float[Tensor, "b c d h w"], Float[Tensor, "b c h w"]]:
        poses, logits = self.conv(features).split([self.types * SIZE, self.types], dim=1)
        poses = poses.unflatten(1, (self.types, SIZE))
        if self.pose_norm is None or self.activation_norm is None:
            return poses, (logits - 1).sigmoid()
        return self.pose_norm(poses), self.activation_norm(logits).sigmoid()


class _MatrixCapsules(nn.Module):
    """What the layers below have in common: matrices, and a routing of the votes that are made with them."""

    def __init__(self, in_types: int, out_types: int, kernel: int, routing: str, **options: Any) -> None:
        super().__init__()
        if not get_routing(routing).takes("normalise"):
            names = " or ".join(repr(name) for name, entry in ROUTINGS.items() if entry.takes("normalise"))
            raise CapsNetError(f"Convolutional capsules route by {names}, not '{routing}'.")
        self.weight = nn.Parameter(torch.empty(out_types, SIDE, SIDE, in_types * kernel * kernel))
        _initialise(self.weight, in_types, out_types, kernel, routing)
        # What these routings learn does not depend on how many children there are.
        self.routing = Routing(routing, in_types, out_types, SIZE, **options)

    def route(
        self,
        poses: Float[Tensor, "b p n n i"],
        activations: Float[Tensor, "b p i"],
        weight: Float[Tensor, "j n n i"],
        normalise: Normalise,
        offset: Float[Tensor, "d i"] | None = None,
    ) -> RoutingResult:
        """Poses (B, P x J, D), activations and coupling of the parents; `offset` is added to the votes."""
        # Log densities of votes that nearly agree: half of float32's digits are not enough for them.
        with torch.autocast(poses.device.type, enabled=False):
            votes = MatrixVotes(poses.to(weight.dtype), weight, offset)
            return self.routing(votes, activations.to(weight.dtype), normalise=normalise)


class ConvCapsules(_MatrixCapsules):
    """Capsules whose parents see a window of children.

    Args:
        in_types, out_types: C and J.
        kernel, stride: of the window.
        routing: "em" or "variational".
        iterations: of the routing.

    Shapes: poses (B, C, D, H, W), activations (B, C, H, W) -> the same of J types on the parents' map.
    """

    def __init__(
        self,
        in_types: int,
        out_types: int,
        *,
        kernel: int = 3,
        stride: int = 1,
        routing: str = "em",
        iterations: int = 3,
    ) -> None:
        super().__init__(in_types, out_types, kernel, routing, iterations=iterations)
        self.kernel, self.stride = kernel, stride

    def forward(
        self, poses: Float[Tensor, "b c d h w"], activations: Float[Tensor, "b c h w"]
    ) -> tuple[Float[Tensor, "b j d h2 w2"], Float[Tensor, "b j h2 w2"]]:
        height, width = ((n - self.kernel) // self.stride + 1 for n in poses.shape[3:])
        types, rows, columns = activations.shape[1:]
        seen = seen_children((types, rows, columns), self.kernel, self.stride, poses.device)
        children = activations[0].numel()
        matrices = poses.transpose(1, 2).flatten(2)[:, :, seen]  # b d p i
        windows = matrices.transpose(1, 2).unflatten(2, (SIDE, SIDE))
        result = self.route(
            windows, activations.flatten(1)[:, seen], self.weight, OverPositions(seen, children)
        )
        places = (height, width, -1)
        return (
            result.poses.unflatten(1, places).permute(0, 3, 4, 1, 2),
            result.activations.unflatten(1, places).permute(0, 3, 1, 2),
        )


class ClassCapsules(_MatrixCapsules):
    """One capsule per class, which sees all children at all positions through the same matrices.

    Coordinate addition: the position's height and width, as fractions of the map, are added to the first two elements of
    every vote from there.

    Shapes: poses (B, C, D, H, W), activations (B, C, H, W) -> poses (B, J, D), activations (B, J), coupling (B, J, C*H*W).
    """

    def __init__(self, in_types: int, classes: int, *, routing: str = "em", iterations: int = 3) -> None:
        super().__init__(in_types, classes, 1, routing, iterations=iterations)

    def forward(
        self, poses: Float[Tensor, "b c d h w"], activations: Float[Tensor, "b c h w"]
    ) -> RoutingResult:
        height, width = poses.shape[3:]
        matrices = poses.transpose(1, 2).flatten(2).unflatten(1, (1, SIDE, SIDE))
        weight = self.weight.repeat_interleave(height * width, dim=3)
        offset = _coordinates(height, width, poses).repeat(1, activations.shape[1])
        return self.route(matrices, activations.flatten(1).unsqueeze(1), weight, over_parents, offset)


def _initialise(weight: nn.Parameter, in_types: int, out_types: int, kernel: int, routing: str) -> None:
    """Variational: Glorot-uniform with all types, window places and pose elements in the fans, as the authors. EM, whose paper
    says nothing: normal, large enough for the votes to spread beyond the floor under their variance, or nothing is learned."""
    if routing == "em":
        nn.init.normal_(weight, std=1 / SIDE)
    else:
        bound = math.sqrt(6 / ((in_types + out_types) * kernel**2 * SIZE))
        nn.init.uniform_(weight, -bound, bound)


def _coordinates(height: int, width: int, like: Tensor) -> Float[Tensor, "d hw"]:
    """The middle of each position as fractions of the map, in the first two of D elements; the others zero."""
    rows = (torch.arange(height, dtype=like.dtype, device=like.device) + 0.5) / height
    columns = (torch.arange(width, dtype=like.dtype, device=like.device) + 0.5) / width
    places = torch.stack(torch.meshgrid(rows, columns, indexing="ij")).flatten(1)
    return F.pad(places, (0, 0, 0, SIZE - 2))
