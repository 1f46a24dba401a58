"""`capsnet.train`: from what a user passes to a trained run."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from capsnet.config import Config
from capsnet.errors import CapsNetError
from capsnet.files import replacing
from capsnet.models.base import CapsuleModel
from capsnet.saving import load
from capsnet.train.callbacks import Callback
from capsnet.train.distributed import leads
from capsnet.train.interrupt import Interrupted
from capsnet.train.loop import train
from capsnet.train.progress import show_progress
from capsnet.train.settings import default_folder, make_config

ARRAYS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True)
class Run:
    """A finished training.

    Attributes:
        folder: where it is kept; every command and `capsnet.open_weights` take it.
        result: the content of its result.json.
    """

    folder: Path
    result: dict[str, Any]

    @property
    def history(self) -> list[dict[str, Any]]:
        """One row for each epoch, as in metrics.csv."""
        return self.result["curve"]

    @cached_property
    def model(self) -> CapsuleModel:
        """The selected network: the best on the validation set, or the last without one."""
        return load(self.folder / self.result["selected"]["weights"])


def train_run(
    dataset: Any,
    *,
    model: str | None,
    recipe: str | None,
    out: str | Path | None,
    callbacks: Sequence[Callback],
    resume: bool,
    data_dir: str | Path | None,
    progress: bool,
    save_every: float,
    config: Config | None,
    **settings: Any,
) -> Run:
    """See `capsnet.train`."""
    if dataset is None and config is not None:
        name = config.dataset
    elif isinstance(dataset, str | Path):
        name = str(dataset)
    else:
        name = keep_arrays(dataset, Path(out).parent if out else Path("runs"))
    chosen = make_config(name, model=model, recipe=recipe, base=config, **settings)
    folder = Path(out) if out is not None else default_folder(chosen)
    shown = show_progress(Console(stderr=True)) if progress and leads() else []
    try:
        result = train(
            chosen,
            folder,
            resume=resume,
            data_dir=Path(data_dir) if data_dir is not None else None,
            callbacks=[*callbacks, *shown],
            save_every=save_every,
        )
    except Interrupted as stop:
        raise KeyboardInterrupt(str(stop)) from None
    return Run(folder, result)


def keep_arrays(given: Any, folder: Path) -> str:
    """Keep arrays as an .npz file in a folder, named after their content, and return its path."""
    if isinstance(given, Mapping):
        named = dict(given)
    elif isinstance(given, Sequence) and len(given) in (2, 4):
        named = dict(zip(ARRAYS, given, strict=False))
    else:
        raise CapsNetError(
            "A data set is a name, a path, arrays (x_train, y_train) or (x_train, y_train, x_test, y_test), or a mapping with "
            f"those names; got {type(given).__name__}."
        )
    for name in named:
        if name not in (*ARRAYS, "class_names"):
            raise CapsNetError(
                f"There is no place for the array '{name}'; there are {', '.join(ARRAYS)} and class_names."
            )
    arrays: dict[str, Any] = {name: as_numpy(name, value) for name, value in named.items()}
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    file = folder / f"arrays-{digest.hexdigest()[:12]}.npz"
    if not file.exists() and leads():
        with replacing(file) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)
    return str(file)


def as_numpy(name: str, value: Any) -> np.ndarray:
    """Return an array of NumPy's from one of torch's, NumPy's, or a list."""
    array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    if array.dtype.hasobject:
        raise CapsNetError(f"{name} holds Python objects; give numbers, or names as text.")
    return array
