"""What a routing is, and how a layer finds one by name.

A routing is a function `(votes, ...) -> RoutingResult`. What it may take after the votes, a layer reads off its signature:
- learned tensors, and modules that keep statistics, under the names that it declares with `parameters=`;
- `bias` (J, D), learned too, if the layer's user asks for one;
- `activations` (B, I), how present each input capsule is;
- behind the `*`, options that the layer's user sets, such as `iterations`.

Letters: B batch, I input capsules, J output capsules, D pose size.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError, unknown_name


class RoutingResult(NamedTuple):
    """The capsules of the layer above: their poses, how present each is, and how each input was shared among them."""

    poses: Float[Tensor, "b j d"]
    activations: Float[Tensor, "b j"]
    coupling: Float[Tensor, "b j i"]


InitialParameters = Callable[[int, int, int], dict[str, Tensor | nn.Module]]


def _no_parameters(i: int, j: int, d: int) -> dict[str, Tensor | nn.Module]:
    return {}


@dataclass(frozen=True)
class Routing:
    """A registered routing: its name, its function, and its learned tensors' initial values for (I, J, D)."""

    name: str
    function: Callable[..., RoutingResult]
    parameters: InitialParameters

    def takes(self, argument: str) -> bool:
        """Whether the function has an argument of this name."""
        return argument in inspect.signature(self.function).parameters

    def check_options(self, options: dict[str, Any]) -> None:
        """Refuses an option that the function does not take, by name."""
        parameters = inspect.signature(self.function).parameters
        known = {p.name: p.annotation for p in parameters.values() if p.kind is p.KEYWORD_ONLY}
        for option, value in options.items():
            if option not in known:
                takes = ", ".join(sorted(known)) or "none"
                raise CapsNetError(f"Routing '{self.name}' has no option '{option}'; its options: {takes}.")
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if known[option] in (int, int | None) and not (number and isinstance(value, int) and value >= 1):
                raise CapsNetError(f"{option} is a whole number from 1 up, not {value!r}.")
            if known[option] is float and not (number and math.isfinite(value)):
                raise CapsNetError(f"{option} is a number, not {value!r}.")


ROUTINGS: dict[str, Routing] = {}


def register_routing(
    name: str, *, parameters: InitialParameters = _no_parameters
) -> Callable[[Callable[..., RoutingResult]], Callable[..., RoutingResult]]:
    """Makes a function available to every capsule layer under `name`."""

    def register(function: Callable[..., RoutingResult]) -> Callable[..., RoutingResult]:
        ROUTINGS[name] = Routing(name, function, parameters)
        return function

    return register


def get_routing(name: str) -> Routing:
    """A routing by its name."""
    if name not in ROUTINGS:
        raise unknown_name("routing", name, ROUTINGS)
    return ROUTINGS[name]
