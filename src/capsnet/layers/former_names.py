"""Names that tensors had in weights of earlier versions, for layers whose parts are called otherwise today.

A layer lists them as `former_names`, from the beginning of the former name to that of today's.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn


class FormerNames(nn.Module):
    """Loads a state dictionary with the former names too."""

    former_names: ClassVar[Mapping[str, str]] = {}

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *arguments: Any) -> None:
        _rename(state_dict, prefix, self.former_names)
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def with_todays_names(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A model's tensors by the names that they have in it today."""
    renamed = dict(tensors)
    for name, module in model.named_modules():
        if isinstance(module, FormerNames):
            _rename(renamed, f"{name}." if name else "", module.former_names)
    return renamed


def _rename(tensors: dict[str, Tensor], prefix: str, names: Mapping[str, str]) -> None:
    for former, today in names.items():
        for key in [key for key in tensors if key.startswith(prefix + former)]:
            tensors[prefix + today + key.removeprefix(prefix + former)] = tensors.pop(key)
