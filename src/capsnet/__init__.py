"""Capsule networks in PyTorch. The names below are the public ones; torch is imported when one is first used."""

import importlib
from typing import TYPE_CHECKING, Any

from capsnet.waiting import bound_spinning

bound_spinning()  # before torch is loaded

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from capsnet import convert, data, functional, layers, models
    from capsnet.card import Card
    from capsnet.errors import CapsNetError
    from capsnet.estimator import CapsNetClassifier
    from capsnet.opening import open_weights
    from capsnet.registry import create_model, list_models
    from capsnet.saving import load, save
    from capsnet.train import train

_HOMES = {
    "CapsNetClassifier": "capsnet.estimator",
    "CapsNetError": "capsnet.errors",
    "Card": "capsnet.card",
    "create_model": "capsnet.registry",
    "list_models": "capsnet.registry",
    "load": "capsnet.saving",
    "open_weights": "capsnet.opening",
    "save": "capsnet.saving",
}
_MODULES = ("convert", "data", "functional", "layers", "models", "train")

__all__ = [
    "CapsNetClassifier",
    "CapsNetError",
    "Card",
    "convert",
    "create_model",
    "data",
    "functional",
    "layers",
    "list_models",
    "load",
    "models",
    "open_weights",
    "save",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"capsnet.{name}")
    raise AttributeError(f"module 'capsnet' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
