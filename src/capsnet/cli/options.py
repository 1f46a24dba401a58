"""Kinds of options that commands share, so that their help reads well."""

from pathlib import Path
from typing import Annotated, TypeVar

from tyro.conf import Positional, arg

T = TypeVar("T")

# The help text says what happens when it is left out; "(default: None)" after it would say nothing.
Maybe = Annotated[T | None, arg(help_behavior_hint="")]
Flag = Annotated[bool, arg(help_behavior_hint="")]
Names = Positional[Annotated[tuple[str, ...], arg(help_behavior_hint="")]]
Files = Positional[Annotated[tuple[Path, ...], arg(help_behavior_hint="")]]
