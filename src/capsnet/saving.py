"""Weights on disk: a folder with `model.safetensors` and `config.json`. Nothing is ever unpickled.

Two files cannot be replaced in one step, so the tensors' file also carries the whole configuration as its metadata: it is
complete by itself, and is renamed into place before `config.json`, the copy for people and other programs. Both state the
tensors' checksum. `config.json` is used as long as its checksum matches the tensors (so a class name may be edited in it);
a crash between the two renames leaves a stale one, and then the metadata is used.

Large weights may be divided into several files. The further ones are named after the checksum, so that they never replace
those of earlier weights, and are written first; `model.safetensors` lists them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from capsnet.card import Card, check_image_shape
from capsnet.errors import CapsNetError
from capsnet.files import atomic_write, read_json, write_json
from capsnet.layers.former_names import with_todays_names
from capsnet.registry import Architecture, create_model

if TYPE_CHECKING:
    from capsnet.models.base import CapsuleModel

FORMAT_VERSION = 1
TENSORS = "model.safetensors"
FURTHER = "model-*.safetensors"
CONFIG = "config.json"
BUNDLED = Path(__file__).parent / "weights"


def save(
    model: "CapsuleModel",
    path: str | Path,
    *,
    card: Card | None = None,
    half: bool = False,
    largest_file: int | None = None,
) -> None:
    """Write a model's weights, and how to build it again, into the folder `path`; weights that are there are replaced.

    Args:
        card: stored with the weights; the model's own by default.
        half: store the learned values in 16 bits; running statistics keep 32 bits, and `load` returns everything in 32.
        largest_file: the most bytes of tensors per file; the rest goes into further files.
    """
    architecture: Architecture | None = getattr(model, "architecture", None)
    if architecture is None:
        raise CapsNetError(
            "Only a model made by create_model can be saved: others don't say how to build them."
        )
    for option, value in architecture.options.items():
        if isinstance(value, torch.nn.Module):
            raise CapsNetError(
                f"This model's {option} is a module ({type(value).__name__}), and a weights folder cannot say how to build it; "
                f"register a function that builds it with @capsnet.models.register_{option} and pass its name, "
                "or keep model.state_dict() yourself."
            )
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    if half:
        tensors.update({name: tensors[name].half() for name, _ in model.named_parameters()})
    card = card or model.card
    card.check(architecture.image_shape, architecture.num_classes)
    digest = checksum(tensors)
    first, *more = _parts(tensors, largest_file)
    further = {f"model-{digest[:8]}-{number}.safetensors": part for number, part in enumerate(more, start=2)}
    config = {
        "format_version": FORMAT_VERSION,
        "model": architecture.name,
        "image_shape": list(architecture.image_shape),
        "num_classes": architecture.num_classes,
        "options": architecture.options,
        **card.to_dict(),
        **({"further_files": list(further)} if further else {}),
        "tensors_sha256": digest,
    }
    try:
        metadata = json.dumps(config, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CapsNetError(f"The model's options and card must fit into JSON: {error}.") from error
    folder = Path(path)
    for name, part in further.items():
        atomic_write(folder / name, to_bytes(part))
    atomic_write(folder / TENSORS, to_bytes(first, {"capsnet": metadata}))
    write_json(folder / CONFIG, config)
    for stale in folder.glob(FURTHER):
        if stale.name not in further:
            stale.unlink()


def load(name_or_path: str | Path) -> "CapsuleModel":
    """Load a model with its weights, in evaluation mode; `model.card` is what they say about themselves.

    Args:
        name_or_path: a bundled name such as "efficient_capsnet.mnist", a weights folder, or a run folder (its best
            weights if it has any, else its last).
    """
    folder = weights_folder(name_or_path)
    config, tensors = _read(folder)
    model = _build(folder, config, tensors)
    model.load_state_dict(tensors)
    return model.eval()


def load_card(name_or_path: str | Path) -> Card:
    """Read what weights say about themselves, without building the model."""
    folder = weights_folder(name_or_path)
    return Card.from_dict(_read(folder)[0])


def write_card(name_or_path: str | Path, card: Card) -> None:
    """Replace the card of weights in their config.json, and nothing else."""
    folder = weights_folder(name_or_path)
    config, _ = _read(folder)
    shape: Any = [int(side) for side in config["image_shape"]]
    card.check(shape, int(config["num_classes"]))
    write_json(folder / CONFIG, {**config, **card.to_dict()})


def has_weights(folder: Path) -> bool:
    """Tell whether a weights folder or a run folder holds weights."""
    return any((place / TENSORS).is_file() for place in _places(folder))


def bundled_names() -> list[str]:
    """List the weights that come with the package."""
    return sorted(file.parent.name for file in BUNDLED.glob(f"*/{TENSORS}"))


def weights_folder(name_or_path: str | Path) -> Path:
    """Find the folder that holds the tensors; see `load`."""
    if str(name_or_path) in bundled_names():
        return BUNDLED / str(name_or_path)
    path = Path(name_or_path)
    if path.name == TENSORS and path.is_file():
        return path.parent
    for folder in _places(path):
        if (folder / TENSORS).is_file():
            return folder
    if path.exists():
        raise CapsNetError(
            f"'{path}' holds no weights: no {TENSORS} in it, nor in its sub-folders best and last."
        )
    names = ", ".join(bundled_names()) or "none"
    raise CapsNetError(
        f"There are no weights '{name_or_path}': neither a folder nor a bundled name ({names})."
    )


def _places(path: Path) -> tuple[Path, ...]:
    """Where the weights of a folder may be, those that count first."""
    return path, path / "best", path / "last"


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of names, types, shapes and values, so that a flipped bit is noticed."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _parts(tensors: dict[str, Tensor], largest: int | None) -> list[dict[str, Tensor]]:
    """Divide the tensors, in their order, into files that are not too large."""
    parts: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if largest is not None and parts[-1] and size + tensor.nbytes > largest:
            parts.append({})
            size = 0
        parts[-1][name] = tensor
        size += tensor.nbytes
    return parts


def _read_file(file: Path) -> tuple[str | None, dict[str, Tensor]]:
    try:
        with safe_open(file, framework="pt") as opened:
            metadata = (opened.metadata() or {}).get("capsnet")
            return metadata, {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118, it is no mapping
    except (SafetensorError, ValueError) as error:
        raise CapsNetError(f"'{file}' is damaged: {error}.") from error
    except OSError as error:
        raise CapsNetError(f"Could not read '{file}': {error.strerror or error}.") from error


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    file = folder / TENSORS
    metadata, tensors = _read_file(file)
    try:
        config = json.loads(metadata) if metadata is not None else None
    except (ValueError, RecursionError) as error:
        raise CapsNetError(f"'{file}' is damaged: {error}.") from error
    if not isinstance(config, dict):
        raise CapsNetError(f"'{file}' was not written by capsnet: it does not say which model it is for.")
    version = config.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise CapsNetError(
            f"'{file}' has format version {version}; this capsnet reads up to {FORMAT_VERSION} only."
        )
    further = config.get("further_files", [])
    for name in further if isinstance(further, list) else [further]:
        if not isinstance(name, str) or not fnmatch(name, FURTHER) or Path(name).name != name:
            raise CapsNetError(f"'{file}' is damaged: '{name}' is no name of a further file.")
        tensors.update(_read_file(folder / name)[1])
    if checksum(tensors) != config.get("tensors_sha256"):
        raise CapsNetError(f"'{file}' is damaged: its values don't have the checksum that it states.")
    if (folder / CONFIG).exists():
        copy = read_json(folder / CONFIG)
        if isinstance(copy, dict) and copy.get("tensors_sha256") == config["tensors_sha256"]:
            config = copy
    return config, tensors


def _build(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> "CapsuleModel":
    try:
        name, classes = str(config["model"]), int(config["num_classes"])
        shape: Any = [int(side) for side in config["image_shape"]]
        options = {key: as_tuples(value) for key, value in config["options"].items()}
        card = Card.from_dict(config)
        _check_sizes(shape, classes, tensors)
        # First without memory: a wrong shape is found before anything of that size is allocated.
        with torch.device("meta"):
            expected = create_model(name, shape, classes, **options)
        _check(expected.state_dict(), with_todays_names(expected, tensors))
        card.check(shape, classes)
        # The initial values are thrown away, so drawing them must not move the caller's random numbers.
        with torch.random.fork_rng(devices=[]):
            model = create_model(name, shape, classes, **options)
    except CapsNetError as error:
        raise CapsNetError(f"The weights in '{folder}' cannot be used: {error}") from error
    # Sizes that only a damaged file has overflow in many ways.
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise CapsNetError(f"The configuration in '{folder}' is damaged: {error!r}.") from error
    model.card = card
    return model


def _check_sizes(shape: Sequence[int], classes: int, tensors: Mapping[str, Tensor]) -> None:
    """Refuse an image shape or a number of classes that weights of this size cannot be for."""
    numbers = sum(tensor.numel() for tensor in tensors.values())
    if classes > numbers:
        raise CapsNetError(f"{classes:,} classes are too many for weights of {numbers:,} numbers.")
    check_image_shape(shape)


def as_tuples(value: Any) -> Any:
    """Turn lists into tuples: JSON has none, and a model that is built again must have equal options."""
    if isinstance(value, dict):
        return {key: as_tuples(item) for key, item in value.items()}
    return tuple(as_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def _check(expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    for name in expected.keys() - tensors.keys():
        if not name.endswith("num_batches_tracked"):  # which torch puts in
            raise CapsNetError(f"the tensor '{name}' is missing.")
    for name in tensors.keys() - expected.keys():
        raise CapsNetError(f"the tensor '{name}' does not belong to this model.")
    for name, tensor in expected.items():
        if name in tensors and tensor.shape != tensors[name].shape:
            want, got = tuple(tensor.shape), tuple(tensors[name].shape)
            raise CapsNetError(f"the tensor '{name}' has shape {got}, the model needs {want}.")
