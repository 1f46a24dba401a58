"""The authors' published weights (Keras 2, h5) as models of this library: nothing is trained again.

`from_keras(path)` finds out which of the paper's networks a file holds. Array names differ from file to file, their
order and shapes do not: the layers' arrays one after the other, with BatchNorm's running statistics after the learned
arrays of their group. So a file is recognised by its shapes, before any value is read, and filled in by order.

Layouts: their convolution kernels are (H, W, in, out), ours (out, in, H, W), the depthwise ones too; their dense
kernels are (in, out), ours (out, in); their images have the channels last, so a dense decoder's pixels change order.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import nn

from capsnet.card import Card
from capsnet.data.mnist import PREPROCESSING as MNIST
from capsnet.data.multimnist import PREPROCESSING as MULTIMNIST
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError
from capsnet.layers import ConvPrimaryCapsules, DenseCapsules
from capsnet.registry import ImageShape, create_model

if TYPE_CHECKING:
    import h5py

    from capsnet.models.base import CapsuleModel

DIGITS = tuple("0123456789")
TOYS = ("animal", "human", "airplane", "truck", "car")
# The authors standardise with the data set's statistics, which their files don't hold: each image by its own.
SMALLNORB = Preprocessing(kind="picture", resize=(64, 64), crop=(48, 48), per_image=True)
SMALLNORB_32 = Preprocessing(kind="picture", resize=(48, 48), crop=(32, 32), per_image=True)


class Network(NamedTuple):
    """A network that the authors published, and what its file does not say."""

    model: str
    image_shape: ImageShape
    class_names: tuple[str, ...]
    preprocessing: Preprocessing


NETWORKS = (
    Network("efficient_capsnet", (1, 28, 28), DIGITS, MNIST),
    Network("efficient_capsnet_smallnorb", (2, 48, 48), TOYS, SMALLNORB),
    Network("efficient_capsnet_multimnist", (1, 36, 36), DIGITS, MULTIMNIST),
    Network("capsnet", (1, 28, 28), DIGITS, MNIST),
    Network("capsnet", (1, 36, 36), DIGITS, MULTIMNIST),
    Network("capsnet", (2, 32, 32), TOYS, SMALLNORB_32),
)


Arrange = Callable[[np.ndarray], np.ndarray]


class Slot(NamedTuple):
    """A tensor of a model: its name, its shape in a Keras file, and how the file's array becomes it."""

    name: str
    shape: tuple[int, ...]
    arrange: Arrange


def from_keras(path: str | Path) -> "CapsuleModel":
    """A model, in evaluation mode and with a card, from a weights file that the authors' program wrote.

    The decoder is there when the file has one.
    """
    try:
        import h5py
    except ImportError:
        raise CapsNetError(
            "Reading the authors' h5 files needs h5py: install it with pip install 'capsnet[convert]'."
        ) from None
    path = Path(path)
    try:
        content_hash = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise CapsNetError(f"There is no file '{path}'.") from None
    except OSError as error:
        raise CapsNetError(f"Could not read '{path}': {error.strerror}.") from error
    try:
        with h5py.File(path, "r") as file:
            found = _arrays(file)
            network, decoder, slots = _recognise(path, [array.shape for array in found])
            values = {
                slot.name: slot.arrange(np.asarray(array[()], np.float32))
                for slot, array in zip(slots, found, strict=True)
            }
    except CapsNetError:
        raise
    except (OSError, KeyError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise CapsNetError(f"'{path}' is damaged or not a Keras weights file (h5): {error}.") from error
    if not all(np.isfinite(value).all() for value in values.values()):
        raise CapsNetError(f"'{path}' is damaged: some of its numbers are not finite.")
    model = _create(network, decoder)
    tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in values.items()}
    model.load_state_dict({**model.state_dict(), **tensors})
    model.card = Card(
        network.class_names,
        network.preprocessing.to_dict(),
        {"converted_from": path.name, "sha256": content_hash, "format": "Keras h5"},
    )
    return model.eval()


def _create(network: Network, decoder: bool) -> "CapsuleModel":
    with torch.random.fork_rng(devices=[]):
        return create_model(network.model, network.image_shape, len(network.class_names), decoder=decoder)


def _arrays(file: "h5py.File") -> "list[h5py.Dataset]":
    """A file's arrays in the order that it states; without the values, which are read when the shapes fit."""
    root = file.get("model_weights", file)
    arrays = []
    for group in _names(root, "layer_names"):
        arrays += [root[group][name] for name in _names(root[group], "weight_names")]
    return arrays


def _names(group: "h5py.Group", attribute: str) -> list[str]:
    return [n.decode() if isinstance(n, bytes) else str(n) for n in group.attrs[attribute]]


def _recognise(path: Path, shapes: list[tuple[int, ...]]) -> tuple[Network, bool, list[Slot]]:
    """The network whose arrays have these shapes, whether with its decoder, and the slot of each array."""
    for network, decoder in itertools.product(NETWORKS, (True, False)):
        with torch.device("meta"):
            model = _create(network, decoder)
        slots = _match(list(_learned(model)), list(_statistics(model)), shapes)
        if slots is not None:
            return network, decoder, slots
    seen = ", ".join("x".join(map(str, shape)) for shape in shapes[:6])
    known = ", ".join(dict.fromkeys(network.model for network in NETWORKS))
    raise CapsNetError(
        f"'{path}' holds none of the networks that can be converted ({known}): "
        f"it has {len(shapes)} arrays, the first of shapes {seen or 'none'}."
    )


def _match(learned: list[Slot], statistics: list[Slot], shapes: list[tuple[int, ...]]) -> list[Slot] | None:
    """The slot of each array, or None.

    An array that is not the next learned one is the next statistic. That cannot go wrong: statistics come after gamma
    and beta, and what is learned next is then a kernel, of more axes.
    """
    slots = []
    for shape in shapes:
        for waiting in (learned, statistics):
            if waiting and waiting[0].shape == shape:
                slots.append(waiting.pop(0))
                break
        else:
            return None
    return slots if not learned and not statistics else None


def _statistics(model: "CapsuleModel") -> Iterator[Slot]:
    for prefix, module in model.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            for name in ("running_mean", "running_var"):
                yield Slot(f"{prefix}.{name}", (module.num_features,), _as_is)


def _learned(model: "CapsuleModel") -> Iterator[Slot]:
    for prefix, module in model.named_modules():
        for name, tensor in module.named_parameters(prefix, recurse=False):
            slot = _slot(module, name, tuple(tensor.shape))
            if name.startswith("decoder.pixels") and isinstance(module, nn.Linear):
                slot = slot._replace(arrange=_channels_first(model.image_shape, slot.arrange))
            yield slot


def _slot(module: nn.Module, name: str, shape: tuple[int, ...]) -> Slot:
    if isinstance(module, nn.Conv2d | ConvPrimaryCapsules) and len(shape) == 4:
        return Slot(name, (*shape[2:], shape[1], shape[0]), lambda array: array.transpose(3, 2, 0, 1))
    if isinstance(module, nn.Linear) and len(shape) == 2:
        return Slot(name, shape[::-1], np.transpose)
    if isinstance(module, DenseCapsules) and module.routing.name == "dynamic":
        j, i, k, d = shape  # theirs: one matrix for each input, to all outputs side by side
        return Slot(name, (i, k, j * d), lambda array: array.reshape(i, k, j, d).transpose(2, 0, 1, 3))
    if name.endswith("log_prior"):
        return Slot(name, (*shape, 1), lambda array: array[..., 0])
    return Slot(name, shape, _as_is)


def _as_is(array: np.ndarray) -> np.ndarray:
    return array


def _channels_first(image_shape: ImageShape, arrange: Arrange) -> Arrange:
    """Also puts the rows, one a pixel, from (H, W, C) into (C, H, W) order."""
    channels, height, width = image_shape
    pixels = np.arange(channels * height * width).reshape(height, width, channels)
    order = pixels.transpose(2, 0, 1).ravel()
    return lambda array: arrange(array)[order]
