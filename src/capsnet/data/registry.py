"""Data sets by name: `@register_dataset` puts one in, `load_dataset` reads one, `list_datasets` tells of all without reading.

A registered data set is a function `(data_dir, **options) -> DataSet`. Nothing here needs torch.
"""

import importlib
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from capsnet.data.download import Progress
from capsnet.errors import CapsNetError, unknown_name

if TYPE_CHECKING:
    from capsnet.data.base import DataSet
    from capsnet.data.manifest import Manifest

# Each registers its data set when imported.
MODULES = (
    "mnist",
    "fashion_mnist",
    "multimnist",
    "affnist",
    "smallnorb",
    "toyviews.dataset",
    "eth80",
    "coil100",
    "cifar10",
)

FILE_SUFFIXES = (".npz", ".csv", ".tsv")

Find = Callable[[Path | None], Path | None]
Fetch = Callable[[Path | None, Progress | None], Path]
Make = Callable[[Path | None, Callable[[int, int], None] | None], Path]


@dataclass(frozen=True)
class DataSetInfo:
    """What is known of a data set without reading it.

    `find` says where its files are on this machine, if they are; `fetch` downloads them and `make` generates
    them, where that can be done. `hold_out` is how validation images are held out unless a user says.
    """

    name: str
    summary: str
    train_images: int
    test_images: int
    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    licence: str
    load: Callable[..., "DataSet"]
    find: Find
    fetch: Fetch | None = None
    make: Make | None = None
    hold_out: str = "images"


_DATASETS: dict[str, DataSetInfo] = {}


def register_dataset(
    *,
    train_images: int,
    test_images: int,
    image_shape: tuple[int, int, int],
    class_names: tuple[str, ...],
    licence: str,
    find: Find,
    fetch: Fetch | None = None,
    make: Make | None = None,
    hold_out: str = "images",
) -> Callable[[Callable[..., "DataSet"]], Callable[..., "DataSet"]]:
    """Registers the loading function under its own name; the first line of its docstring is the summary."""

    def register(load: Callable[..., "DataSet"]) -> Callable[..., "DataSet"]:
        summary = (inspect.getdoc(load) or "").partition("\n")[0].rstrip(".")
        _DATASETS[load.__name__] = DataSetInfo(
            load.__name__,
            summary,
            train_images,
            test_images,
            image_shape,
            class_names,
            licence,
            load,
            find,
            fetch,
            make,
            hold_out,
        )
        return load

    return register


def list_datasets() -> list[DataSetInfo]:
    """All registered data sets, by name."""
    for module in MODULES:
        importlib.import_module(f"capsnet.data.{module}")
    return [_DATASETS[name] for name in sorted(_DATASETS)]


def get_dataset_info(name: str) -> DataSetInfo:
    """What is registered under `name`."""
    known = {info.name: info for info in list_datasets()}
    if name not in known:
        raise unknown_name("data set", name, known)
    return known[name]


def usual_hold_out(name: str) -> str:
    """Return how validation images of a data set are held out unless a user says; one by one for a path."""
    return next((info.hold_out for info in list_datasets() if info.name == name), "images")


def load_dataset(
    name: str, data_dir: str | Path | None = None, *, manifest: "Manifest | None" = None, **options: Any
) -> "DataSet":
    """Read a data set into memory; download it when it is nowhere on this machine and can be had.

    Args:
        name: a registered name, or the path of a folder of pictures, of a CSV or TSV that lists them, or of an .npz file.
        data_dir: looked in first, and downloaded to; see `capsnet.data.files.data_folders` for the rest.
        manifest: how a run divided the pictures of that path, to divide them in the same way.
        options: the data set's own.
    """
    check_options(name, options)
    load = _loader(name)
    if is_path(name):
        return load(Path(name).expanduser(), manifest=manifest, **options)
    return load(Path(data_dir) if data_dir is not None else None, **options)


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse a data set or path that is not there, and options that it does not have."""
    parameters, known = inspect.signature(_loader(name)).parameters, option_names(name)
    for option, value in options.items():
        if option not in known:
            its = f"its options: {', '.join(known)}." if known else "it has no options."
            raise CapsNetError(f"Data set '{name}' has no option '{option}'; {its}")
        _check_kind(name, option, value, parameters[option].annotation)


def option_names(name: str) -> list[str]:
    """List the options that `load_dataset` takes for a data set."""
    return [
        option for option in list(inspect.signature(_loader(name)).parameters)[1:] if option != "manifest"
    ]


def is_path(name: str) -> bool:
    """Tell whether `name` is a path to your own data: it has a slash or a data file's ending, or exists and is no data set."""
    path = Path(name).expanduser()
    if path.suffix.lower() in FILE_SUFFIXES or os.sep in name or name in (".", ".."):
        return True
    return path.exists() and name not in {info.name for info in list_datasets()}


def is_here(name: str, data_dir: Path | None = None) -> bool:
    """Tell whether a data set is on this machine, so that reading it downloads nothing."""
    return (
        Path(name).expanduser().exists()
        if is_path(name)
        else get_dataset_info(name).find(data_dir) is not None
    )


KINDS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}


def _check_kind(name: str, option: str, value: Any, annotation: Any) -> None:
    """Refuse an option's value of another type than the loading function takes; from a command line any may come."""
    kinds = [get_origin(kind) or kind for kind in get_args(annotation) or (annotation,)]
    if not any(kind in KINDS for kind in kinds):
        return
    if isinstance(value, str | bool):  # a text is a sequence too, and true is a number
        fits = type(value) in kinds
    else:
        fits = isinstance(value, tuple(kinds)) or (isinstance(value, int) and float in kinds)
    if not fits:
        words = [KINDS[kind] for kind in kinds if kind in KINDS]
        raise CapsNetError(f"The option {option} of '{name}' is {' or '.join(words)}, not {value}.")


def _loader(name: str) -> Callable[..., "DataSet"]:
    """What reads a data set, or the path of your own."""
    if not is_path(name):
        return get_dataset_info(name).load
    path = Path(name).expanduser()
    if path.suffix.lower() == ".npz":
        from capsnet.data.npz import load_npz

        return load_npz
    if not path.is_dir() and path.suffix.lower() not in FILE_SUFFIXES:
        problem = f"{path} is a single file" if path.is_file() else f"There is no folder {path}"
        raise CapsNetError(
            f"{problem}; your own pictures are a folder with one sub-folder per class, a CSV or TSV "
            "with columns for file and label, or an .npz file."
        )
    from capsnet.data.folder import load_folder

    return load_folder
