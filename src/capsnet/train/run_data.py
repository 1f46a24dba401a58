"""A run's data: read as its manifest divides them, and the manifest that a new run keeps (`capsnet.data.manifest`)."""

from pathlib import Path

from capsnet.config import Config
from capsnet.data.base import DataSet
from capsnet.data.hold_out import hold_out_rows
from capsnet.data.manifest import Division, Entry, find_division, load_divided, write_manifest
from capsnet.train.state import FILE as STATE

NEW = Division(None, "content")


def run_division(folder: Path) -> Division:
    """Return how a run that has begun divided its data; a new one divides your own pictures by content."""
    return find_division(folder, {}) if (folder / STATE).exists() else NEW


def load_run_data(config: Config, folder: Path, division: Division, data_dir: Path | None) -> DataSet:
    """Read the data set of a run; refuse to continue it with pictures that have changed."""
    return load_divided(
        config.dataset, division, folder, data_dir=data_dir, resuming=True, **config.dataset_options
    )


def keep_manifest(config: Config, dataset: DataSet, folder: Path) -> None:
    """Write which of your own pictures are trained on, validated on and tested on; other data sets have no manifest."""
    if not dataset.manifest:
        return
    rows, held_out = hold_out_rows(
        dataset,
        config.hold_out,
        fold=config.fold,
        count=config.validation,
        kept=config.limit,
        seed=config.seed,
    )
    split = dict.fromkeys(range(len(dataset.train.labels)), "unused")
    split |= dict.fromkeys(rows.tolist(), "train")
    split |= dict.fromkeys(held_out.tolist() if held_out is not None else [], "validation")
    entries: list[Entry] = [
        entry._replace(split=split.get(row, entry.split)) for row, entry in enumerate(dataset.manifest)
    ]
    write_manifest(folder, entries)
