"""Data sets: readers, pre-processing, augmentation. torch is imported when something that needs it is first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capsnet.data.base import Augmentation, Batch, DataSet, Split
    from capsnet.data.pictures import read_picture
    from capsnet.data.preprocessing import Preprocessing
    from capsnet.data.registry import (
        DataSetInfo,
        get_dataset_info,
        list_datasets,
        load_dataset,
        register_dataset,
    )
    from capsnet.data.splits import default_validation_count, limit, split_validation

_HOMES = {
    "Augmentation": "base",
    "Batch": "base",
    "DataSet": "base",
    "DataSetInfo": "registry",
    "Preprocessing": "preprocessing",
    "Split": "base",
    "default_validation_count": "splits",
    "get_dataset_info": "registry",
    "limit": "splits",
    "list_datasets": "registry",
    "load_dataset": "registry",
    "read_picture": "pictures",
    "register_dataset": "registry",
    "split_validation": "splits",
}

__all__ = [
    "Augmentation",
    "Batch",
    "DataSet",
    "DataSetInfo",
    "Preprocessing",
    "Split",
    "default_validation_count",
    "get_dataset_info",
    "limit",
    "list_datasets",
    "load_dataset",
    "read_picture",
    "register_dataset",
    "split_validation",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"capsnet.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'capsnet.data' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
