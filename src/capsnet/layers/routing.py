"""A routing as capsule layers have it: one object with all that depends on which routing it is.

It owns what the routing learns, and knows what its activations mean, which loss suits them, and how a class is chosen. The
mathematics is a pure function in `capsnet.functional.routing`, found there by its name.

Letters: B batch, I input capsules, J output capsules, D pose size, K input pose size.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from capsnet.errors import CapsNetError
from capsnet.functional.routing import RoutingResult, get_routing
from capsnet.functional.routing.products import UnmadeVotes
from capsnet.functional.squashing import get_squash


class Routing(nn.Module):
    """Shares input capsules among output capsules.

    Args:
        name: of a routing in `capsnet.functional.routing.ROUTINGS`.
        inputs, parents, size: I, J and D, which its learned values are sized by.
        in_size: K, for routings that read the input capsules' poses.
        bias: learn a (J, D) addend to the coupled sums, for routings that take one.
        options: the routing's own, such as `iterations=3`; `squash` is a name from `capsnet.functional.squashing.SQUASHES`.

    Shapes: votes (B, J, I, D) -> poses (B, J, D), activations (B, J), coupling (B, J, I).
    """

    def __init__(
        self,
        name: str,
        inputs: int,
        parents: int,
        size: int,
        *,
        in_size: int | None = None,
        bias: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.entry = get_routing(name)
        self.entry.check_options(options)
        if "squash" in options:
            options["squash"] = get_squash(options["squash"])
        self.options = options
        learned = self.entry.learned(inputs, parents, size, in_size)
        if bias and "bias" not in learned:
            if not self.entry.takes("bias"):
                raise CapsNetError(f"Routing '{name}' takes no bias.")
            learned["bias"] = torch.zeros(parents, size)
        self.learned = tuple(learned)
        for key, value in learned.items():
            if isinstance(value, nn.Module):
                self.add_module(key, value)
            else:
                self.register_parameter(key, nn.Parameter(value))

    @property
    def name(self) -> str:
        return self.entry.name

    def extra_repr(self) -> str:
        return ", ".join([repr(self.name), *(f"{key}={value!r}" for key, value in self.options.items())])

    def forward(
        self,
        votes: Float[Tensor, "b j i d"] | UnmadeVotes,
        activations: Float[Tensor, "b i"] | Float[Tensor, "b p i"] | None = None,
        **more: Any,
    ) -> RoutingResult:
        """
        Args:
            activations: how present each input is, for routings that ask for it.
            more: the function's further arguments, such as `normalise`; `coupling`, to be used in place of its own.
        """
        arguments = {key: getattr(self, key) for key in self.learned}
        if self.entry.takes("activations"):
            arguments["activations"] = activations
        return self.entry.function(votes, **arguments, **self.options, **more)

    def loss(
        self, activations: Float[Tensor, "b j"], targets: Float[Tensor, "b j"], *, progress: float = 1.0
    ) -> Float[Tensor, ""]:
        """The loss that suits the activations. `progress`, from 0 to 1 over training, is for losses that change on the way."""
        return self.entry.loss(activations, targets, progress)

    def choose(self, poses: Float[Tensor, "b j d"]) -> Int[Tensor, "b"]:
        """The most active capsule of each image, where the poses tell which that is."""
        if self.entry.activation is None:
            raise CapsNetError(
                f"With routing '{self.name}' the poses do not tell which capsule is the most active: "
                "give the model's output instead of its poses, or the classes."
            )
        return self.entry.activation(poses).argmax(dim=1)
