"""Dense capsules: every capsule votes for every capsule above, and a routing decides.

Efficient-CapsNet eq. 3 for the votes; the routing is any of `capsnet.functional.routing`, by name.

Letters: B batch, I input capsules, J output capsules, K input pose size, D output pose size.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError
from capsnet.functional.routing import RoutingResult, get_routing
from capsnet.functional.squashing import get_squash, length
from capsnet.functional.votes import compute_votes
from capsnet.layers.initialisation import truncated_normal_


class DenseCapsules(nn.Module):
    """A fully connected capsule layer.

    Args:
        in_capsules, in_size: I and K, the layer below.
        out_capsules, out_size: J and D, this layer.
        routing: a name from `capsnet.functional.routing.ROUTINGS`.
        scale: for self-attention, whose size goes under the root of eq. 5: "output" (the authors' program and published
            weights) or "input" (the paper).
        squash: a name from `capsnet.functional.squashing.SQUASHES`, for routings that squash.
        options: the routing's own, such as `iterations=3`.

    Shapes: (B, I, K) -> poses (B, J, D), activations (B, J), coupling (B, J, I).
    """

    def __init__(
        self,
        in_capsules: int,
        in_size: int,
        out_capsules: int,
        out_size: int,
        *,
        routing: str = "self_attention",
        scale: str = "output",
        squash: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.routing = get_routing(routing)
        self.routing.check_options(options)
        if scale not in ("output", "input"):
            raise CapsNetError(f"scale is 'output' or 'input', not '{scale}'.")
        if routing == "self_attention":
            options.setdefault("dimension", in_size if scale == "input" else out_size)
        if squash is not None:
            self.routing.check_options({"squash": squash})
            options["squash"] = get_squash(squash)
        self.options = options
        self.weight = nn.Parameter(torch.empty(out_capsules, in_capsules, in_size, out_size))
        # He's rule with the fan-in that the authors' framework reads off this shape: everything but I and D's place.
        truncated_normal_(self.weight, std=math.sqrt(2 / (out_capsules * in_capsules * in_size)))
        initial = self.routing.parameters(in_capsules, out_capsules, out_size)
        self.routing_parameters = nn.ParameterDict({name: nn.Parameter(t) for name, t in initial.items()})

    def forward(
        self, capsules: Float[Tensor, "b i k"], activations: Float[Tensor, "b i"] | None = None
    ) -> RoutingResult:
        arguments: dict[str, Any] = {**self.routing_parameters, **self.options}
        if self.routing.uses_activations:
            arguments["activations"] = length(capsules) if activations is None else activations
        return self.routing.function(compute_votes(capsules, self.weight), **arguments)
