"""The one exception for what a user can cause: the command line prints its sentence and exits with code 2."""

import difflib
from collections.abc import Iterable, Sequence


class CapsNetError(ValueError):
    """Says in one sentence what is wrong, where, and what to do about it."""


def unknown_name(kind: str, name: str, known: Iterable[str], where: str = "") -> CapsNetError:
    """The error for a name that is not registered, with the nearest one that is; `where` may say for what."""
    known = sorted(known)
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean '{nearest[0]}'?" if nearest else f"there are: {', '.join(known)}."
    return CapsNetError(f"There is no {kind} '{name}'{where and f' {where}'}; {hint}")


def refuse_equal_classes(class_names: Sequence[str], where: str = "") -> None:
    """Refuse two classes of one name: predictions list their scores by name, so that one would hide the other."""
    if len(set(class_names)) < len(class_names):
        name = next(name for n, name in enumerate(class_names) if name in class_names[:n])
        raise CapsNetError(f"Two classes have the same name, '{name}'{where}; rename one of them.")
