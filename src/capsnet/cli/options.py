"""Kinds of options that commands share, so that their help reads well."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from tyro.conf import Positional, arg

from capsnet.errors import CapsNetError

T = TypeVar("T")
Kernels = Literal["auto", "off"]

# The help text says what happens when it is left out; "(default: None)" after it would say nothing.
Maybe = Annotated[T | None, arg(help_behavior_hint="")]
Flag = Annotated[bool, arg(help_behavior_hint="")]
Pairs = Annotated[tuple[str, ...], arg(metavar="KEY=VALUE ...", help_behavior_hint="")]
Parts = Annotated[tuple[str, ...], arg(metavar="PART ...", help_behavior_hint="")]
Names = Positional[Annotated[tuple[str, ...], arg(help_behavior_hint="")]]
Files = Positional[Annotated[tuple[Path, ...], arg(help_behavior_hint="")]]


def choose_kernels(mode: Kernels | None) -> None:
    """Switch `capsnet.kernels` on or off, for this process and for those that it starts."""
    if mode is not None:
        os.environ["CAPSNET_KERNELS"] = mode


def parse_pairs(pairs: Sequence[str], option: str) -> dict[str, Any]:
    """`key=value` words as a dictionary; a value that reads as JSON (3, true, [[12, 12]]) is that, numbers with commas between
    them (8,8,16) are a list, else it is text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise CapsNetError(f"{option} takes words of the form key=value, not '{pair}'.")
        listed = f"[{text}]" if re.fullmatch(r"\d+(,\d+)+", text) else text
        try:
            values[key] = json.loads(listed)
        except ValueError:
            values[key] = text
    return values
