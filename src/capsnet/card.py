"""What weights say about themselves: their classes, their input, where they come from, how good they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capsnet.errors import CapsNetError


@dataclass(frozen=True)
class Card:
    """Travels with a model as `model.card` and is stored beside its weights.

    Args:
        class_names: one a class, in the order of the scores; empty when unknown.
        preprocessing: what `capsnet.data.preprocessing.Preprocessing.to_dict` gives; empty when unknown.
        provenance: where they come from: data set, recipe, seed, commit, or the file converted from.
        score: what was measured, such as `{"test_error_percent": 0.5}`.
    """

    class_names: tuple[str, ...] = ()
    preprocessing: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    score: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "class_names": list(self.class_names),
            "preprocessing": dict(self.preprocessing),
            "provenance": dict(self.provenance),
            "score": dict(self.score),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Card":
        """From JSON; keys that belong to others are passed over."""
        names = values.get("class_names", ())
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise CapsNetError(f"class_names is a list of names, not {names!r}.")
        parts = {key: values.get(key, {}) for key in ("preprocessing", "provenance", "score")}
        for key, value in parts.items():
            if not isinstance(value, Mapping):
                raise CapsNetError(f"{key} is an object with named values, not {value!r}.")
        return cls(tuple(names), **{key: dict(value) for key, value in parts.items()})
