"""Convolutional capsules with matrices for poses: the layers of EM and of variational Bayes routing.

Hinton, Sabour, Frosst 2018, sections 4 and 5; Ribeiro et al. 2020. A capsule is a 4x4 pose matrix and an activation. Each
parent sees the children of a small window; a child's vote is its pose times a learned 4x4 matrix; the assignment of a child
sums to one over all parents at all positions that see it. The class capsules see every position through the same matrices,
so a vote there also gets the position added to its first two elements.

The votes would be by far the largest tensor (21 MB an image in the paper's first layer). Where kernels can be compiled they are
never stored (`functional/routing/matrix_votes.py`). Elsewhere, and in the class capsules, whose votes are few, they are; in
large batches they are not kept for the backward pass then but computed again. Either way images are routed a few at a time,
so that the caches are used well.

Letters: B batch, C child types, J parent types, H x W children's map, P positions of the parents, I = C x kernel x kernel
children that a position sees, D = 16 pose elements.
"""

import math
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from capsnet.errors import CapsNetError
from capsnet.functional.routing import RoutingResult
from capsnet.functional.routing.em import em_loop
from capsnet.functional.routing.kernels import usable
from capsnet.functional.routing.matrix_votes import route_matrix_votes
from capsnet.functional.routing.mixture import Normalise, over_parents
from capsnet.functional.routing.positions import over_positions, seen_children
from capsnet.functional.routing.products import route
from capsnet.functional.routing.variational import variational_loop
from capsnet.functional.votes import compute_matrix_votes

SIDE = 4
SIZE = SIDE * SIDE
_VOTES_AT_ONCE = 2**23  # elements of the images routed together
_VOTES_KEPT = 2**26  # elements of a batch above which they are computed again for the backward pass


class MatrixPrimaryCapsules(nn.Module):
    """A 1x1 convolution without bias to a pose and an activation of each type at every position.

    Args:
        channels: feature maps coming in.
        types: capsules at each position.
        normalised: batch-normalises poses and activation logits, one affine pair a type (VB), instead of subtracting
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


class MatrixRouting(nn.Module):
    """EM or variational Bayes routing of matrix votes, with what is learned for each parent type.

    Args:
        types: J.
        routing: "em" or "variational".
        iterations: of the routing.
    """

    def __init__(self, types: int, *, routing: str, iterations: int) -> None:
        super().__init__()
        if routing not in ("em", "variational"):
            raise CapsNetError(f"Convolutional capsules route by 'em' or 'variational', not '{routing}'.")
        self.routing = routing
        self.iterations = iterations
        self.types = types
        self.beta_a = nn.Parameter(torch.zeros(types))
        self.beta_u = nn.Parameter(torch.zeros(types))
        variational = routing == "variational"
        self.pose_norm = nn.BatchNorm2d(types, affine=False) if variational else None
        self.activation_norm = nn.BatchNorm1d(types, affine=False) if variational else None

    def forward(
        self,
        poses: Float[Tensor, "b p n n i"],
        activations: Float[Tensor, "b p i"],
        weight: Float[Tensor, "j n n i"],
        normalise: Normalise,
        offset: Float[Tensor, "d i"] | None = None,
    ) -> tuple[Float[Tensor, "b p j d"], Float[Tensor, "b p j"], tuple[Tensor, ...]]:
        """Poses and activations of the parents, and the coupling (P x J, I) of some images at a time; `offset` is added to
        the votes."""
        # Log densities of votes that nearly agree: half of float32's digits are not enough for them.
        with torch.autocast(poses.device.type, enabled=False):
            return self._forward(
                poses.to(weight.dtype), activations.to(weight.dtype), weight, normalise, offset
            )

    def _forward(
        self, poses: Tensor, activations: Tensor, weight: Tensor, normalise: Normalise, offset: Tensor | None
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        b, p, i = activations.shape
        votes_of_one = p * self.types * i * SIZE
        together = max(1, _VOTES_AT_ONCE // votes_of_one)
        unstored = offset is None and usable(poses, activations, weight)
        some_images = partial(self._route, unstored)
        if torch.compiler.is_compiling():
            # Not split at all: into how many parts would depend on the batch, and make its size a constant.
            groups = [(poses, activations)]
        else:
            groups = list(zip(poses.split(together), activations.split(together), strict=True))
            if not unstored and b * votes_of_one > _VOTES_KEPT and torch.is_grad_enabled():
                # The other form, without re-entry, would keep what the routing saves within its own differentiation.
                some_images = partial(checkpoint, some_images, use_reentrant=True, preserve_rng_state=False)
        # The betas are handed over, as the form with re-entry differentiates by its arguments.
        parts = [some_images(*some, weight, self.beta_a, self.beta_u, normalise, offset) for some in groups]
        routed_parts, number_parts, coupling = zip(*parts, strict=True)
        routed, numbers = torch.cat(routed_parts), torch.cat(number_parts)
        routed, numbers = routed.unflatten(1, (p, self.types)), numbers.unflatten(1, (p, self.types))
        if self.pose_norm is None or self.activation_norm is None:
            return routed, numbers, coupling
        routed = self.pose_norm(routed.transpose(1, 2)).transpose(1, 2)
        numbers = self.activation_norm(numbers.transpose(1, 2)).transpose(1, 2)
        return routed, numbers.sigmoid(), coupling

    def _route(
        self,
        unstored: bool,
        poses: Tensor,
        activations: Tensor,
        weight: Tensor,
        beta_a: Tensor,
        beta_u: Tensor,
        normalise: Normalise,
        offset: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        p = poses.shape[1]
        small = beta_a.repeat(p), beta_u.repeat(p), activations
        if self.routing == "em":
            loop = em_loop(normalise, iterations=self.iterations)
        else:
            loop = variational_loop(normalise, siblings=self.types, iterations=self.iterations)
        if unstored:
            return route_matrix_votes(loop, poses, weight, *small)
        votes = compute_matrix_votes(poses, weight).flatten(3, 4)
        if offset is not None:
            votes = votes + offset
        return route(loop, votes.flatten(1, 2).transpose(2, 3), *small, centred=True)


class ConvCapsules(nn.Module):
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
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.weight = nn.Parameter(torch.empty(out_types, SIDE, SIDE, in_types * kernel * kernel))
        _initialise(self.weight, in_types, out_types, kernel, routing)
        self.routing = MatrixRouting(out_types, routing=routing, iterations=iterations)

    def forward(
        self, poses: Float[Tensor, "b c d h w"], activations: Float[Tensor, "b c h w"]
    ) -> tuple[Float[Tensor, "b j d h2 w2"], Float[Tensor, "b j h2 w2"]]:
        height, width = ((n - self.kernel) // self.stride + 1 for n in poses.shape[3:])
        types, rows, columns = activations.shape[1:]
        seen = seen_children((types, rows, columns), self.kernel, self.stride, poses.device)
        children = activations[0].numel()
        matrices = poses.transpose(1, 2).flatten(2)[:, :, seen]  # b d p i
        windows = matrices.transpose(1, 2).unflatten(2, (SIDE, SIDE))
        routed, active, _ = self.routing(
            windows, activations.flatten(1)[:, seen], self.weight, over_positions(seen, children)
        )
        return routed.permute(0, 2, 3, 1).unflatten(3, (height, width)), active.transpose(1, 2).unflatten(
            2, (height, width)
        )


class ClassCapsules(nn.Module):
    """One capsule a class, which sees all children at all positions through the same matrices.

    Coordinate addition: the position's height and width, as fractions of the map, are added to the first two elements of
    every vote from there.

    Shapes: poses (B, C, D, H, W), activations (B, C, H, W) -> poses (B, J, D), activations (B, J), coupling (B, J, C*H*W).
    """

    def __init__(self, in_types: int, classes: int, *, routing: str = "em", iterations: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, SIDE, SIDE, in_types))
        _initialise(self.weight, in_types, classes, 1, routing)
        self.routing = MatrixRouting(classes, routing=routing, iterations=iterations)

    def forward(
        self, poses: Float[Tensor, "b c d h w"], activations: Float[Tensor, "b c h w"]
    ) -> RoutingResult:
        height, width = poses.shape[3:]
        matrices = poses.transpose(1, 2).flatten(2).unflatten(1, (1, SIDE, SIDE))
        weight = self.weight.repeat_interleave(height * width, dim=3)
        offset = _coordinates(height, width, poses).repeat(1, activations.shape[1])
        routed, active, coupling = self.routing(
            matrices, activations.flatten(1).unsqueeze(1), weight, over_parents, offset
        )
        return RoutingResult(routed.squeeze(1), active.squeeze(1), torch.cat(coupling))


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
