"""Models by name: `@register_model` puts one in, `create_model` makes one, `list_models` names them all.

A registered model is a function `(image_shape, num_classes, *, ...) -> CapsuleModel` whose options stand behind the `*`; with
`routing="..."` and `**routing_options` among them, those of the routing are its options too. What it was made from stays with
it as `model.architecture`, which is what weights files store.
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from capsnet.errors import CapsNetError, unknown_name

if TYPE_CHECKING:
    from capsnet.models.base import CapsuleModel

ImageShape = tuple[int, int, int]


@dataclass(frozen=True)
class Architecture:
    """All that is needed to build a model again, without its weights."""

    name: str
    image_shape: ImageShape
    num_classes: int
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A registered model and its paper's image shape and number of classes."""

    build: Callable[..., "CapsuleModel"]
    image_shape: ImageShape
    num_classes: int


_MODELS: dict[str, Entry] = {}


def register_model(
    *, image_shape: ImageShape, num_classes: int
) -> Callable[[Callable[..., "CapsuleModel"]], Callable[..., "CapsuleModel"]]:
    """Registers the function under its own name, with its paper's image shape and classes as defaults."""

    def register(build: Callable[..., "CapsuleModel"]) -> Callable[..., "CapsuleModel"]:
        _MODELS[build.__name__] = Entry(build, image_shape, num_classes)
        return build

    return register


def get_entry(name: str) -> Entry:
    """What is registered under `name`."""
    importlib.import_module("capsnet.models")
    if name not in _MODELS:
        raise unknown_name("model", name, _MODELS)
    return _MODELS[name]


def list_models() -> list[str]:
    """The names of all models."""
    importlib.import_module("capsnet.models")
    return sorted(_MODELS)


def create_model(
    name: str, image_shape: ImageShape | None = None, num_classes: int | None = None, **options: Any
) -> "CapsuleModel":
    """Makes a model with fresh initial values (drawn from torch's global generator).

    Args:
        image_shape: channels, height, width; the paper's when left out.
        num_classes: the paper's when left out.
        options: the model's own, such as `decoder=False`.
    """
    entry = get_entry(name)
    shape = tuple(int(n) for n in image_shape) if image_shape is not None else entry.image_shape
    classes = int(num_classes) if num_classes is not None else entry.num_classes
    if len(shape) != 3 or min(shape) < 1:
        raise CapsNetError(f"image_shape is (channels, height, width), each at least 1; got {image_shape}.")
    if classes < 2:
        raise CapsNetError(f"A classifier needs at least 2 classes; got {classes}.")
    _check_options(name, entry, options)
    model = entry.build(shape, classes, **options)
    model.architecture = Architecture(name, shape, classes, options)
    return model


def _check_options(name: str, entry: Entry, options: dict[str, Any]) -> None:
    """Refuse an option that neither the model nor, where the user may choose it, the routing knows."""
    from capsnet.functional.routing.registry import check_value, get_routing
    from capsnet.layers import DenseCapsules

    parameters = inspect.signature(entry.build).parameters.values()
    known = {p.name: p.annotation for p in parameters if p.kind is p.KEYWORD_ONLY}
    of = f"Model '{name}'"
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        default = next((p.default for p in parameters if p.name == "routing"), None)
        if default is None:
            return  # a model that takes whatever it is given
        routing = get_routing(options.get("routing", default))
        known = {**DenseCapsules.options_for(routing), **known}
        of += f" with routing '{routing.name}'"
    for option in options:
        if option not in known:
            raise CapsNetError(f"{of} has no option '{option}'; its options: {', '.join(known)}.")
        check_value(option, known[option], options[option])
