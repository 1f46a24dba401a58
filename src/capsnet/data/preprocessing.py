"""How stored pixels become a model's input: kept with the weights as JSON, so that a later picture is treated the same.

Importable without torch: command-line code reads it, and only `apply` computes.

Letters: B batch, C x H x W image.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from capsnet.errors import CapsNetError

if TYPE_CHECKING:
    from torch import Tensor

KINDS = ("digit", "picture")


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


def _size(values: Any) -> tuple[int, int]:
    height, width = values
    return int(height), int(width)


# JSON has lists for tuples and may write 256.0 as 256.
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "kind": str,
    "divisor": float,
    "mean": _numbers,
    "std": _numbers,
    "resize": _size,
    "crop": _size,
}


@dataclass(frozen=True)
class Preprocessing:
    """In this order: divide, resize, standardise, crop the centre. Each of the last three only where it is set.

    Attributes:
        kind: how an image file is brought into the stored form (`capsnet.data.pictures`): "digit" finds the ink and
            centres it as MNIST did, "picture" keeps the whole picture.
        divisor: pixels 0..255 are divided by it; 256 for MNIST, 255 for MultiMNIST.
        mean: subtracted, one number a channel, after the division.
        std: divided by, one number a channel.
        resize: height and width, antialiased.
        crop: height and width of the part kept from the middle.
        per_image: standardise each image by its own mean and deviation, last of all, as Hinton's program does.
        light_on_dark: the stored pictures have a black ground, so a picture file with a light border is inverted.
    """

    kind: str = "picture"
    divisor: float = 255.0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    resize: tuple[int, int] | None = None
    crop: tuple[int, int] | None = None
    per_image: bool = False
    light_on_dark: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise CapsNetError(f"A pre-processing's kind is one of {', '.join(KINDS)}, not {self.kind!r}.")
        if not self.divisor > 0:
            raise CapsNetError(f"A pre-processing's divisor is above 0, not {self.divisor}.")
        if (self.mean is None) != (self.std is None) or len(self.mean or ()) != len(self.std or ()):
            raise CapsNetError("A pre-processing has a mean and a std for the same channels, or neither.")
        if any(not s > 0 for s in self.std or ()):
            raise CapsNetError(f"A pre-processing's std is above 0 for each channel, not {self.std}.")
        for name in ("resize", "crop"):
            size = getattr(self, name)
            if size is not None and min(size) < 1:
                raise CapsNetError(
                    f"A pre-processing's {name} is at least one pixel high and wide, not {size}."
                )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Preprocessing":
        """The inverse of `to_dict`; an unknown or ill-typed field is an error, since ignoring it would change predictions."""
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise CapsNetError(
                f"A pre-processing has no field '{unknown[0]}'; it has {', '.join(sorted(known))}."
            )
        arguments: dict[str, Any] = {}
        for name, value in values.items():
            try:
                absent = value is None and name in ("mean", "std", "resize", "crop")
                arguments[name] = None if absent else _CONVERTERS.get(name, bool)(value)
            except (TypeError, ValueError) as error:
                raise CapsNetError(f"A pre-processing's {name} cannot be {value!r}.") from error
        return cls(**arguments)

    def apply(self, images: "Tensor") -> "Tensor":
        """uint8 (B, C, H, W) as stored -> float32 (B, C, H', W') as a model takes it."""
        return self.finish(self.resized(images))

    def resized(self, images: "Tensor") -> "Tensor":
        """The part of `apply` before the crop: what random crops are taken from."""
        import torch
        from torch.nn import functional as F

        x = images.to(torch.float32) / self.divisor
        if self.resize is not None and tuple(x.shape[-2:]) != self.resize:
            x = F.interpolate(x, self.resize, mode="bilinear", antialias=True)
        if self.mean is not None and self.std is not None:
            mean, std = x.new_tensor(self.mean), x.new_tensor(self.std)
            x = (x - mean[:, None, None]) / std[:, None, None]
        return x

    def finish(self, x: "Tensor") -> "Tensor":
        """The crop and what follows it."""
        if self.crop is not None:
            (height, width), (h, w) = x.shape[-2:], self.crop
            if h > height or w > width:
                raise CapsNetError(f"A crop of {h}x{w} does not fit into pictures of {height}x{width}.")
            top, left = (height - h) // 2, (width - w) // 2
            x = x[..., top : top + h, left : left + w]
        return standardise_each(x) if self.per_image else x


def standardise_each(x: "Tensor") -> "Tensor":
    """Zero mean and unit deviation for each image (over all its channels); a flat image becomes zeros."""
    mean = x.mean(dim=(1, 2, 3), keepdim=True)
    # The floor is that of the deviation of one pixel in the whole image, so that a flat image divides by something.
    floor = x[0].numel() ** -0.5 if len(x) else 1.0
    return (x - mean) / x.std(dim=(1, 2, 3), keepdim=True, correction=0).clamp_min(floor)
