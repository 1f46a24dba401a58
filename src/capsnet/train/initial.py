"""Starting from other weights (`--init`): whatever fits is kept, the rest is made anew, and `Start` says which.

A tensor fits when the model has one of that name and shape. Options that are not given are those of the weights.

Classes are matched by name. Where a tensor has an axis for the classes (class capsules, routing, the decoder's first layer),
the classes that the weights know keep their values, wherever they stand now. That axis is found by building the model with one
class more: no model has to say where it is. Weights that don't name their classes keep them when there are as many.

Parts of the weights by name (`--init-parts`) may come from another model: the convolutions of one network in another.

Letters: J classes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch
from torch import Tensor

from capsnet.data.base import DataSet
from capsnet.errors import CapsNetError
from capsnet.models.base import CapsuleModel
from capsnet.registry import Architecture, create_model, get_entry
from capsnet.saving import load

TOLD = 8  # names of classes in a sentence


@dataclass(frozen=True)
class Start:
    """What a model starts with: which of its tensors come from other weights, and which parts of it don't learn.

    Attributes:
        kept: tensors that are those of the weights.
        by_class: those that are the weights' for `classes_kept` and new for `classes_new`.
        new: those that are made anew, each with the reason.
        left: modules and tensors of the weights that the model has no place for.
        frozen: modules and tensors that training leaves as they are.
    """

    kept: list[str] = field(default_factory=list)
    by_class: list[str] = field(default_factory=list)
    classes_kept: list[str] = field(default_factory=list)
    classes_new: list[str] = field(default_factory=list)
    new: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether anything comes from other weights or is frozen."""
        return bool(self.kept or self.by_class or self.frozen)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON: whole modules by their names."""
        return {**asdict(self), "kept": self._cover(self.kept), "by_class": self._cover(self.by_class)}

    def _cover(self, names: list[str]) -> list[str]:
        return cover(names, [*self.kept, *self.by_class, *self.new])

    def describe(self, weights: str | None) -> list[str]:
        """Return the lines that a terminal shows."""
        lines = []
        if weights is not None:
            lines.append(f"Kept from {weights}: {', '.join(self._cover(self.kept)) or 'nothing as it is'}")
        if self.by_class:
            kept, new = name_some(self.classes_kept), name_some(self.classes_new)
            lines.append(f"Kept for {kept}, new for {new}: {', '.join(self._cover(self.by_class))}")
        lines += [f"New: {name}, {why}" for name, why in self.new.items()]
        if self.left:
            lines.append(f"Left out of {weights}: {', '.join(self.left)}")
        if self.frozen:
            lines.append(f"Frozen: {', '.join(self.frozen)}")
        return lines


class ClassAxis(NamedTuple):
    """The axis of a tensor on which the classes lie: `groups` times, `size` entries for each class."""

    axis: int
    groups: int
    size: int

    def split(self, tensor: Tensor, classes: int) -> Tensor:
        """Return a view of a tensor with an axis for the classes alone, the one after `axis`."""
        return tensor.unflatten(self.axis, (self.groups, classes, self.size))

    def fits(self, tensor: Tensor, classes: int, given: Tensor, theirs: int) -> bool:
        """Tell whether two tensors differ in nothing but the number of classes."""
        expected = list(tensor.shape)
        expected[self.axis] = expected[self.axis] // classes * theirs
        return list(given.shape) == expected


def start_from(
    weights: str, dataset: DataSet, name: str, options: Mapping[str, Any], parts: Sequence[str] = ()
) -> tuple[CapsuleModel, Start]:
    """Build the model `name` with the given options for a data set, with those values of other weights that fit.

    Args:
        parts: names of modules or tensors, in which * stands for anything, to take nothing else and keep no options.
    """
    source = load(weights)
    theirs = source.architecture
    if theirs.name != name and not parts:
        raise CapsNetError(
            f"The weights '{weights}' are of the model '{theirs.name}', not of '{name}'; say --model {theirs.name}."
        )
    model = create_for(dataset, name, {**({} if parts else theirs.options), **options})
    names = known_classes(source, dataset)
    start = take_over(model, source, names, dataset.class_names, parts)
    if not start.kept and not start.by_class:
        raise CapsNetError(
            f"Nothing of the weights '{weights}' fits {dataset.name} with these options; leave out --init, or choose others."
        )
    return model, start


def create_for(dataset: DataSet, name: str, options: Mapping[str, Any]) -> CapsuleModel:
    """Create a model for a data set's images and classes."""
    shape = dataset.image_shape
    paper = get_entry(name).image_shape
    try:
        return create_model(name, shape, dataset.num_classes, **options)
    except CapsNetError as error:
        if shape == paper:
            raise
        raise CapsNetError(f"Model '{name}' does not fit data set '{dataset.name}': {error}") from None


def known_classes(source: CapsuleModel, dataset: DataSet) -> Sequence[str]:
    """Return the weights' class names; weights without names have the data set's if there are as many classes."""
    unnamed = not source.card.class_names
    as_many = source.architecture.num_classes == dataset.num_classes
    return dataset.class_names if unnamed and as_many else source.card.class_names


def take_over(
    model: CapsuleModel,
    source: CapsuleModel,
    theirs: Sequence[str],
    ours: Sequence[str],
    parts: Sequence[str] = (),
) -> Start:
    """Give a model the source's values that fit, in place. `theirs` and `ours` are the class names of the two."""
    given, wanted = source.state_dict(), model.state_dict()
    for part in parts:
        if not any(is_named(name, part) for name in given):
            known = [name for name, _ in source.named_modules() if name and name.count(".") <= 1]
            raise CapsNetError(
                f"--init-parts: the weights have no part '{part}'; they have {', '.join(known)}."
            )
    if parts:
        given = {name: t for name, t in given.items() if any(is_named(name, part) for part in parts)}
    axes = find_class_axes(model.architecture)
    shared = [name for name in ours if name in theirs]
    same = list(theirs) == list(ours)
    kept: list[str] = []
    by_class: list[str] = []
    new: dict[str, str] = {}
    for name, tensor in wanted.items():
        axis = axes.get(name)
        if name not in given:
            new[name] = "which --init-parts leaves out" if parts else "which the weights don't have"
        elif name not in axes or same:
            if given[name].shape == tensor.shape:
                tensor.copy_(given[name])
                kept.append(name)
            else:
                new[name] = f"which needs {shape_of(tensor)}, not {shape_of(given[name])}"
        elif not shared or axis is None or not axis.fits(tensor, len(ours), given[name], len(theirs)):
            new[name] = "made for other classes" + (" and sizes" if shared else "")
        else:
            here = axis.split(tensor, len(ours)).movedim(axis.axis + 1, 0)
            there = axis.split(given[name], len(theirs)).movedim(axis.axis + 1, 0)
            here[[ours.index(n) for n in shared]] = there[[theirs.index(n) for n in shared]]
            (kept if len(shared) == len(ours) else by_class).append(name)
    fresh = [name for name in ours if name not in shared]
    return Start(
        kept=kept,
        by_class=by_class,
        classes_kept=shared,
        classes_new=fresh,
        new=new,
        left=cover([name for name in given if name not in wanted], given),
    )


def find_class_axes(architecture: Architecture) -> dict[str, ClassAxis | None]:
    """Return the class axis of each tensor that depends on the number of classes; None where it is not divided by classes."""
    like, classes = architecture, architecture.num_classes
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        here, more = (
            create_model(like.name, like.image_shape, n, **like.options) for n in (classes, classes + 1)
        )
    ours, theirs = here.state_dict(), more.state_dict()
    axes: dict[str, ClassAxis | None] = {}
    for key in ours.keys() & theirs.keys():
        sizes = list(zip(ours[key].shape, theirs[key].shape, strict=True))
        grown = [axis for axis, (a, b) in enumerate(sizes) if a != b]
        if not grown:
            continue
        size = sizes[grown[0]][1] - sizes[grown[0]][0]
        divided = len(grown) == 1 and sizes[grown[0]][0] == classes * size
        groups = count_groups(here, key)
        one = divided and groups == count_groups(more, key) and size % groups == 0
        axes[key] = ClassAxis(grown[0], groups, size // groups) if one else None
    return axes


def count_groups(model: CapsuleModel, tensor: str) -> int:
    """Return into how many groups a convolution divides its channels; the classes then lie in each of them."""
    return int(getattr(model.get_submodule(tensor.rpartition(".")[0]), "groups", 1))


def cover(chosen: Collection[str], everything: Iterable[str]) -> list[str]:
    """Return the fewest names of modules and tensors that are exactly `chosen`, out of the tensors `everything`."""
    others = set(everything) - set(chosen)
    found: dict[str, None] = {}
    for name in chosen:
        words = name.split(".")
        prefixes = (".".join(words[: n + 1]) for n in range(len(words)))
        found[next(p for p in prefixes if not any(f"{o}.".startswith(f"{p}.") for o in others))] = None
    return list(found)


def is_named(name: str, pattern: str) -> bool:
    """Tell whether a pattern names a tensor or a module that it is in."""
    words = name.split(".")
    return any(fnmatchcase(".".join(words[: n + 1]), pattern) for n in range(len(words)))


def shape_of(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "one number"


def name_some(classes: Sequence[str]) -> str:
    """List the first of many names."""
    more = len(classes) - TOLD
    return ", ".join(classes[:TOLD]) + (f" and {more} more" if more > 0 else "")
