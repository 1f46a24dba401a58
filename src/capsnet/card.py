"""What weights say about themselves: their classes, their input, where they come from, how good they are.

A card is read from a file that anybody may have written, so `check` compares it with the weights' own shapes before
anything is built from it. Nothing here needs torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from capsnet.data.preprocessing import Preprocessing
from capsnet.detection.detector import Detector
from capsnet.errors import CapsNetError, refuse_equal_classes

# Pictures are resized to at most so many times the part that is cropped from them (the paper resizes to 64 and crops 48).
LARGEST_RESIZE = 8
LARGEST_SIDE = 4096  # the channels, the height and the width of a model's images


@dataclass(frozen=True)
class TrainedOn:
    """The data that weights were trained on, and which part of it: what a run's `Config` said.

    Args:
        dataset: the name or the path, as it was given.
        place: the absolute path of your own data; None for a data set that has a name.
        options: the data set's own.
        digests: SHA-256 of what was read; empty when it was not recorded.
        split_recorded: whether the weights say how their validation images were chosen.
    """

    dataset: str
    place: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    validation: int | None = None
    hold_out: str = "images"
    fold: str | None = None
    limit: int | None = None
    digests: dict[str, str] = field(default_factory=dict)
    split_recorded: bool = True


# Where `Card.provenance` keeps each of them, and the types that a hand-edited file must keep to.
_FIELDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "dataset": ("dataset", (str,)),
    "place": ("place", (str, type(None))),
    "options": ("dataset_options", (dict,)),
    "seed": ("seed", (int,)),
    "validation": ("validation", (int, type(None))),
    "hold_out": ("hold_out", (str,)),
    "fold": ("fold", (str, type(None))),
    "limit": ("limit", (int, type(None))),
    "digests": ("data", (dict,)),
}


@dataclass(frozen=True)
class Card:
    """Travels with a model as `model.card` and is stored beside its weights.

    Args:
        class_names: one per class, in the order of the scores; empty when unknown.
        preprocessing: what `capsnet.data.preprocessing.Preprocessing.to_dict` gives; empty when unknown.
        provenance: where the weights come from: data set, recipe, seed, commit, or the file converted from.
        score: what was measured, such as `{"test_error_percent": 0.5}`.
        detection: how pictures of none of the classes are noticed: `capsnet.detection.detector.Detector.to_dict`; empty when
            that was not calibrated.
    """

    class_names: tuple[str, ...] = ()
    preprocessing: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    score: dict[str, Any] = field(default_factory=dict)
    detection: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "class_names": list(self.class_names),
            "preprocessing": dict(self.preprocessing),
            "provenance": dict(self.provenance),
            "score": dict(self.score),
            **({"detection": dict(self.detection)} if self.detection else {}),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Card":
        """Read a card from JSON; other keys are ignored."""
        names = values.get("class_names", ())
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise CapsNetError(f"class_names is a list of names, not {names!r}.")
        parts = {key: values.get(key, {}) for key in ("preprocessing", "provenance", "score", "detection")}
        for key, value in parts.items():
            if not isinstance(value, Mapping):
                raise CapsNetError(f"{key} is an object with named values, not {value!r}.")
        return cls(tuple(names), **{key: dict(value) for key, value in parts.items()})

    def check(self, image_shape: Sequence[int], num_classes: int) -> None:
        """Refuse a card that cannot belong to weights for these images and classes."""
        if self.class_names and len(self.class_names) != num_classes:
            raise CapsNetError(f"{len(self.class_names)} class names for {num_classes} classes.")
        refuse_equal_classes(self.class_names)
        if self.preprocessing:
            check_preprocessing(Preprocessing.from_dict(self.preprocessing), image_shape)
        if self.detection:
            Detector.from_dict(self.detection, num_classes)

    def without_places(self) -> "Card":
        """Return the card for files that leave this machine: paths of your own data and weights become plain names."""
        kept = {key: value for key, value in self.provenance.items() if key != "place"}
        for key in ("dataset", "init", "teacher"):
            if isinstance(kept.get(key), str):
                kept[key] = PurePath(kept[key]).name
        return replace(self, provenance=kept)

    def names_of(self, num_classes: int) -> tuple[str, ...]:
        """Return the class names, or their numbers where they are unknown."""
        return self.class_names or tuple(str(n) for n in range(num_classes))

    def detector(self, num_classes: int) -> Detector | None:
        """Return what notices pictures of none of the classes; None where it was not calibrated."""
        return Detector.from_dict(self.detection, num_classes) if self.detection else None

    @property
    def trained_on(self) -> TrainedOn | None:
        """The data that the weights were trained on; None when the card doesn't say."""
        if "dataset" not in self.provenance:
            return None
        values: dict[str, Any] = {}
        for name, (key, types) in _FIELDS.items():
            if key not in self.provenance:
                continue
            values[name] = self.provenance[key]
            if not isinstance(values[name], types) or isinstance(values[name], bool):
                raise CapsNetError(f"The weights' card is damaged: its '{key}' cannot be {values[name]!r}.")
        return TrainedOn(**values, split_recorded="seed" in values)


def check_image_shape(shape: Sequence[int]) -> None:
    """Refuse images so large that building a network for them may exhaust the memory."""
    if max(shape, default=0) > LARGEST_SIDE:
        given = "x".join(map(str, shape))
        raise CapsNetError(f"Images of {given} are too large: no side may exceed {LARGEST_SIDE}.")


def check_preprocessing(preprocessing: Preprocessing, image_shape: Sequence[int]) -> None:
    """Refuse a pre-processing that cannot give images of this shape."""
    channels, *size = image_shape
    for name in ("mean", "std"):
        values = getattr(preprocessing, name)
        if values is not None and len(values) not in (1, channels):
            raise CapsNetError(
                f"The pre-processing has a {name} for {len(values)} channels, the images have {channels}."
            )
    result = preprocessing.crop or preprocessing.resize
    if result is not None and list(result) != size:
        made, taken = ("x".join(map(str, sides)) for sides in (result, size))
        raise CapsNetError(f"The pre-processing gives images of {made} pixels, the model takes {taken}.")
    resized = preprocessing.resize or size
    if not all(side <= most <= LARGEST_RESIZE * side for most, side in zip(resized, size, strict=True)):
        wanted, taken = ("x".join(map(str, sides)) for sides in (resized, size))
        raise CapsNetError(
            f"The pre-processing resizes to {wanted} pixels to crop {taken}, which cannot be right."
        )
