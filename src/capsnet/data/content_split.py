"""Which pictures are set aside, decided by their content, so that adding a file moves no other file.

Each unit (a group, else a picture) has a place between 0 and 1, the hash of its name or bytes with a seed; those below
the share are set aside. Exact duplicates have the same bytes and therefore the same place; a duplicate in two groups
joins them. The share of a class is what chance makes of it, about as many as asked for, but at least one unit of each
class is set aside and one stays: only where chance would leave a class without, its unit of the lowest or highest place
is moved, and such a small class can change when files are added. No torch.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence


def find_units(digests: Sequence[str], groups: Sequence[str]) -> tuple[str, ...]:
    """Return what each picture must stay together with: its group, joined with groups that share a picture, or its digest."""
    parent: dict[str, str] = {}
    pictures = set(digests)

    def root(name: str) -> str:
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    names = [f"group {group}" if group else digest for digest, group in zip(digests, groups, strict=True)]
    for name, digest in zip(names, digests, strict=True):
        # A unit is known by a group's name where it has one: the least of its digests could be that of a picture added later.
        first, other = sorted((root(name), root(digest)), key=lambda unit: (unit in pictures, unit))
        parent[other] = first
    return tuple(root(name) for name in names)


def set_aside_by_content(
    units: Sequence[str], labels: Sequence[int], share: float, purpose: str
) -> list[bool]:
    """Return which pictures to set aside, whole units.

    Args:
        share: of the units of each class, between 0 and 1.
        purpose: what for and by which seed; other words draw other units.
    """
    place = {unit: _place(unit, purpose) for unit in set(units)}
    away = {unit for unit, where in place.items() if where < share}
    of_class: dict[int, set[str]] = defaultdict(set)
    for unit, label in zip(units, labels, strict=True):
        of_class[label].add(unit)
    for _, members in sorted(of_class.items()):
        if len(members) > 1 and not members & away:
            away.add(min(members, key=place.__getitem__))
    for _, members in sorted(of_class.items()):
        if members <= away:
            away.remove(max(members, key=place.__getitem__))
    return [unit in away for unit in units]


def _place(unit: str, purpose: str) -> float:
    digest = hashlib.sha256(f"{purpose} {unit}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8]) / 2**64
