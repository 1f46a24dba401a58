"""What a routing is, and how a layer finds one by name.

A routing is a function `(votes, ...) -> RoutingResult`. What it may take after the votes is read off its signature:
- learned tensors, and modules that keep statistics, under the names that it declares with `parameters=`;
- `bias` (J, D), learned too, if the layer's user asks for one;
- `activations` (B, I), how present each input capsule is;
- `capsules` (B, I, K), the input capsules' poses, in a dense layer;
- `coupling` (B, J, I), to be used in place of its own;
- `normalise`, if convolutional capsules can say among whom a capsule is shared;
- behind the `*`, options that the layer's user sets, such as `iterations`.

`capsnet.layers.Routing` is the object that capsule layers have of one.

Letters: B batch, I input capsules, J output capsules, D pose size, K input pose size.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError, unknown_name
from capsnet.functional.losses import margin_loss
from capsnet.functional.squashing import length


class RoutingResult(NamedTuple):
    """The capsules of the layer above: their poses, how present each is, and how each input was shared among them."""

    poses: Float[Tensor, "b j d"]
    activations: Float[Tensor, "b j"]
    coupling: Float[Tensor, "b j i"]


Share = Annotated[float, "between 0 and 1"]
InitialParameters = Callable[..., dict[str, Tensor | nn.Module]]
Activation = Callable[[Float[Tensor, "b j d"]], Float[Tensor, "b j"]]
Loss = Callable[[Tensor, Tensor, float], Tensor]


def _no_parameters(i: int, j: int, d: int) -> dict[str, Tensor | nn.Module]:
    return {}


def _margin_loss(
    activations: Float[Tensor, "b j"], targets: Float[Tensor, "b j"], progress: float
) -> Float[Tensor, ""]:
    return margin_loss(activations, targets)


@dataclass(frozen=True)
class RoutingEntry:
    """A registered routing.

    Args:
        parameters: its learned tensors' initial values, and its modules, for (I, J, D) or (I, J, D, K).
        activation: the activation as a function of the pose; None where a pose does not tell it.
        loss: of class capsules' activations, the targets (B, J), and the progress of the training from 0 to 1.
        uses_route: whether it goes over the votes by `products.route` alone, so that they need not be a tensor.
    """

    name: str
    function: Callable[..., RoutingResult]
    parameters: InitialParameters
    activation: Activation | None
    loss: Loss
    uses_route: bool

    def takes(self, argument: str) -> bool:
        """Whether the function has an argument of this name."""
        return argument in inspect.signature(self.function).parameters

    def learned(self, i: int, j: int, d: int, k: int | None) -> dict[str, Tensor | nn.Module]:
        """Initial values of all that it learns."""
        sizes = (i, j, d, k)[: len(inspect.signature(self.parameters).parameters)]
        if None in sizes:
            raise CapsNetError(f"Routing '{self.name}' reads the input capsules' poses; give their size.")
        return self.parameters(*sizes)

    def options(self) -> dict[str, Any]:
        """The kind of each option that the layer's user may set."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.annotation for p in parameters if p.kind is p.KEYWORD_ONLY}

    def check_options(self, options: dict[str, Any]) -> None:
        """Refuse an option that the function does not take, by name, and a value of the wrong kind."""
        known = self.options()
        for option, value in options.items():
            if option not in known:
                takes = ", ".join(sorted(known)) or "none"
                raise CapsNetError(f"Routing '{self.name}' has no option '{option}'; its options: {takes}.")
            check_value(option, known[option], value)


def check_value(option: str, kind: Any, value: Any) -> None:
    """Refuse an option's value that is not of the kind that its annotation says."""
    if value is None and kind == int | None:
        return
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in (int, int | None) and not (number and isinstance(value, int) and value >= 1):
        raise CapsNetError(f"{option} is a whole number from 1 up, not {value!r}.")
    if kind == Share and not (number and 0 <= value <= 1):
        raise CapsNetError(f"{option} is a number from 0 to 1, not {value!r}.")
    if kind is float and not (number and math.isfinite(value)):
        raise CapsNetError(f"{option} is a number, not {value!r}.")
    if kind is bool and not isinstance(value, bool):
        raise CapsNetError(f"{option} is true or false, not {value!r}.")


ROUTINGS: dict[str, RoutingEntry] = {}


def register_routing(
    name: str,
    *,
    parameters: InitialParameters = _no_parameters,
    activation: Activation | None = length,
    loss: Loss = _margin_loss,
    uses_route: bool = False,
) -> Callable[[Callable[..., RoutingResult]], Callable[..., RoutingResult]]:
    """Make a function available to every capsule layer under `name`; the arguments are `RoutingEntry`'s."""

    def register(function: Callable[..., RoutingResult]) -> Callable[..., RoutingResult]:
        ROUTINGS[name] = RoutingEntry(name, function, parameters, activation, loss, uses_route)
        return function

    return register


def get_routing(name: str) -> RoutingEntry:
    """A routing by its name."""
    if name not in ROUTINGS:
        raise unknown_name("routing", name, ROUTINGS)
    return ROUTINGS[name]
