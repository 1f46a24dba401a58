"""What an ONNX file says about itself, as metadata: its classes, its pre-processing, and the rest of its card.

Three entries, each JSON: `class_names`, `preprocessing`, and `card` with everything else. Nothing here needs torch or the
onnx package: ONNX Runtime reads metadata too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capsnet.card import Card, check_image_shape
from capsnet.errors import CapsNetError
from capsnet.registry import Architecture

if TYPE_CHECKING:
    import onnx

FORMAT_VERSION = 1


@dataclass(frozen=True)
class FileCard:
    """A model's architecture and card, the part of it that a file computes, and the file's format."""

    architecture: Architecture
    card: Card
    part: str
    format: str

    def to_metadata(self) -> dict[str, str]:
        """Return the entries for an ONNX file."""
        card = self.card.to_dict()
        rest = {
            "format_version": FORMAT_VERSION,
            "format": self.format,
            "part": self.part,
            "model": self.architecture.name,
            "image_shape": list(self.architecture.image_shape),
            "num_classes": self.architecture.num_classes,
            "options": self.architecture.options,
            "provenance": card["provenance"],
            "score": card["score"],
            **({"detection": card["detection"]} if "detection" in card else {}),
        }
        entries = {"class_names": card["class_names"], "preprocessing": card["preprocessing"], "card": rest}
        try:
            return {
                key: json.dumps(value, ensure_ascii=False, allow_nan=False) for key, value in entries.items()
            }
        except (TypeError, ValueError) as error:
            raise CapsNetError(f"The model's options and card must fit into JSON: {error}.") from error

    @classmethod
    def from_metadata(cls, entries: Mapping[str, str], file: str) -> "FileCard":
        """Read an ONNX file's entries; refuse a file of another program, and metadata that contradict each other."""
        if "card" not in entries:
            raise CapsNetError(
                f"'{file}' was not written by capsnet export: it does not say what its classes are."
            )
        try:
            rest = json.loads(entries["card"])
            version = rest["format_version"]
            if not isinstance(version, int) or version > FORMAT_VERSION:
                raise CapsNetError(
                    f"it has format version {version}; this capsnet reads up to {FORMAT_VERSION} only."
                )
            channels, height, width = (int(n) for n in rest["image_shape"])
            architecture = Architecture(
                str(rest["model"]), (channels, height, width), int(rest["num_classes"]), dict(rest["options"])
            )
            shared = {key: json.loads(entries[key]) for key in ("class_names", "preprocessing")}
            card = Card.from_dict({**rest, **shared})
            check_image_shape(architecture.image_shape)
            card.check(architecture.image_shape, architecture.num_classes)
            return cls(architecture, card, str(rest["part"]), str(rest["format"]))
        except CapsNetError as error:
            raise CapsNetError(f"'{file}' cannot be used: {error}") from error
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise CapsNetError(f"The metadata of '{file}' is damaged: {error!r}.") from error


def write_metadata(model: "onnx.ModelProto", card: FileCard) -> None:
    """Write the card into a file's metadata, replacing what is there."""
    del model.metadata_props[:]
    for key, value in card.to_metadata().items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
