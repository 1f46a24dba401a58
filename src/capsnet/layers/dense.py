"""Dense capsules: every capsule votes for every capsule above, and a routing decides.

Efficient-CapsNet eq. 3 for the votes, or one matrix for each parent (Gu, Tresp 2020); the routing is any of
`capsnet.functional.routing`, by name.

Letters: B batch, I input capsules, J output capsules, K input pose size, D output pose size.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError
from capsnet.functional.routing import RoutingEntry, RoutingResult, get_routing
from capsnet.functional.squashing import length
from capsnet.functional.votes import compute_shared_votes, compute_votes
from capsnet.layers.former_names import FormerNames
from capsnet.layers.initialisation import truncated_normal_
from capsnet.layers.routing import Routing


class DenseCapsules(FormerNames):
    """A fully connected capsule layer.

    Args:
        in_capsules, in_size: I and K, the layer below.
        out_capsules, out_size: J and D, this layer.
        routing: a name from `capsnet.functional.routing.ROUTINGS`.
        scale: for self-attention, whose size goes under the root of eq. 5: "output" (the authors' program and published
            weights) or "input" (the paper).
        squash: a name from `capsnet.functional.squashing.SQUASHES`, for routings that squash.
        shared: one matrix for each parent, which all inputs share, instead of one for each pair.
        bias: a learned (J, D) addend to the coupled sums, for routings that take one.
        options: the routing's own, such as `iterations=3`.

    Shapes: (B, I, K) -> poses (B, J, D), activations (B, J), coupling (B, J, I).
    """

    former_names = {"routing_parameters.": "routing.", "routing_modules.": "routing."}  # noqa: RUF012

    def __init__(
        self,
        in_capsules: int,
        in_size: int,
        out_capsules: int,
        out_size: int,
        *,
        routing: str = "self_attention",
        scale: str | None = None,
        squash: str | None = None,
        shared: bool = False,
        bias: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        if scale is not None:
            if not get_routing(routing).takes("dimension"):
                raise CapsNetError(f"Routing '{routing}' takes no scale.")
            if scale not in ("output", "input"):
                raise CapsNetError(f"scale is 'output' or 'input', not '{scale}'.")
            options["dimension"] = in_size if scale == "input" else out_size
        if squash is not None:
            options["squash"] = squash
        pairs = (out_capsules,) if shared else (out_capsules, in_capsules)
        self.weight = nn.Parameter(torch.empty(*pairs, in_size, out_size))
        # He's rule with the fan-in that the authors' framework reads off this shape: all sizes but the last.
        truncated_normal_(self.weight, std=math.sqrt(2 / (math.prod(pairs) * in_size)))
        self.routing = Routing(
            routing, in_capsules, out_capsules, out_size, in_size=in_size, bias=bias, **options
        )

    @staticmethod
    def options_for(routing: RoutingEntry) -> dict[str, Any]:
        """The kind of each option that may be set beside the sizes."""
        scale = {"scale": str} if routing.takes("dimension") else {}
        bias = {"bias": bool} if routing.takes("bias") else {}
        return {"routing": str, "shared": bool, **scale, **bias, **routing.options()}

    def forward(
        self, capsules: Float[Tensor, "b i k"], activations: Float[Tensor, "b i"] | None = None
    ) -> RoutingResult:
        """`activations`: how present each input is; the lengths of the poses when left out."""
        expected = tuple(self.weight.shape[1:-1])  # (I, K), or (K,) where all inputs share a matrix
        if tuple(capsules.shape[-len(expected) :]) != expected:
            raise CapsNetError(
                f"This layer takes capsules whose shape ends in {expected}; got {tuple(capsules.shape)}."
            )
        if activations is None:
            activations = length(capsules)
        vote = compute_votes if self.weight.ndim == 4 else compute_shared_votes
        # Couplings are exponentials of sums: half of float32's digits are not enough for them.
        with torch.autocast(capsules.device.type, enabled=False):
            capsules = capsules.to(self.weight.dtype)
            poses = {"capsules": capsules} if self.routing.entry.takes("capsules") else {}
            return self.routing(vote(capsules, self.weight), activations, **poses)
