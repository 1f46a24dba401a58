"""One way from weights to a model and its data: `open_weights`.

The card beside the weights says what they were trained on: the data set or its path, its options, the size of its pictures,
the part that was held out. Whatever looks at trained weights opens them here, so the data are always read as they were for
training: classes in the order of the scores, pictures prepared by the card's own pre-processing.

Classes are matched by name. A data set that has the same classes in another order is put into the weights' order; one that
has other classes is refused.
"""

import logging
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from capsnet.card import Card, TrainedOn
from capsnet.config import Config
from capsnet.data.base import DataSet, Split
from capsnet.data.hold_out import divide_by_manifest, hold_out
from capsnet.data.manifest import Division, find_division, load_divided
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.registry import is_here, is_path, load_dataset, option_names
from capsnet.errors import CapsNetError
from capsnet.files import read_json
from capsnet.models.base import CapsuleModel
from capsnet.saving import CONFIG, load, weights_folder

logger = logging.getLogger("capsnet.weights")


def open_weights(
    weights: str | Path, dataset: str | None = None, *, data_dir: Path | None = None, **options: Any
) -> "OpenedWeights":
    """Load a model together with the data set that it was trained on, or with another one.

    Args:
        weights: a run folder, a weights folder, or a bundled name such as "efficient_capsnet.mnist".
        dataset: a data set's name or path; the one that the weights were trained on when left out.
        data_dir: where data sets are looked for first.
        options: the data set's own; they override those of training.
    """
    return OpenedWeights(str(weights), load(weights), dataset, data_dir, options)


class OpenedWeights:
    """A model in evaluation mode, and its data set, which is read when `dataset` is first asked for.

    Attributes:
        weights: what was opened, as it was given.
        model: the model; `model.card` is what the weights say about themselves.
        trained_on: the data that the weights were trained on; None when they don't say.
    """

    def __init__(
        self,
        weights: str,
        model: CapsuleModel,
        dataset: str | None,
        data_dir: Path | None,
        options: dict[str, Any],
    ) -> None:
        self.weights = weights
        self.model = model
        self.trained_on = _with_runs_split(model.card, weights)
        self._asked, self._data_dir, self._options = dataset, data_dir, options

    @property
    def dataset_name(self) -> str:
        """The name or path of the data set."""
        if self._asked is not None:
            return self._asked
        if self.trained_on is None:
            raise CapsNetError(
                f"The weights '{self.weights}' don't say what they were trained on; name a data set."
            )
        return _find_again(self.trained_on, self.weights)

    @property
    def data_is_here(self) -> bool:
        """Whether the data set is on this machine, so that nothing needs to be downloaded."""
        return is_here(self.dataset_name, self._data_dir)

    @cached_property
    def dataset(self) -> DataSet:
        """The data set, as these weights take it."""
        name, options = self.dataset_name, self.options
        if self._follows_training:
            dataset = load_divided(name, self._division, self.weights, data_dir=self._data_dir, **options)
        else:
            dataset = load_dataset(name, data_dir=self._data_dir, **options)
        if dataset.changes is None:
            self._warn_of_changes(dataset)
        if self.trained_on is not None and self._asked is None:  # called as it was then, wherever it lies now
            dataset = replace(dataset, name=self.trained_on.dataset)
        return fit_dataset(dataset, self.model, self.weights)

    @property
    def options(self) -> dict[str, Any]:
        """The data set's options: those of training, the model's size for your own pictures, and those asked for."""
        name = self.dataset_name
        options = dict(self.trained_on.options) if self._same_place and self.trained_on else {}
        if is_path(name):
            options |= {k: v for k, v in _stored_shape(self.model).items() if k in option_names(name)}
        return options | self._options

    @property
    def is_training_data(self) -> bool:
        """Whether the data set is the one that the weights were trained on, with the same options."""
        told = self.trained_on
        if told is None or self._overridden:
            return False
        moved = told.place is not None and bool(told.digests) and self.dataset.digests == told.digests
        return self._same_place or moved

    def split_training(self) -> tuple[Split, Split | None]:
        """Return the images that the weights were trained on and those that were held out, chosen as training chose them."""
        told = self.trained_on
        if told is None or not self.is_training_data:
            raise CapsNetError(f"The weights '{self.weights}' don't say how this data set was divided.")
        if self._follows_manifest:  # drawn again, pictures that have gone since would change what is drawn
            assert self._division.manifest is not None
            train, held_out = divide_by_manifest(self.dataset, self._division.manifest)
            return train, None if told.validation == 0 else held_out
        return hold_out(
            self.dataset,
            told.hold_out,
            fold=told.fold,
            count=told.validation,
            kept=told.limit,
            seed=told.seed,
        )

    @property
    def _same_place(self) -> bool:
        told = self.trained_on
        if told is None:
            return False
        if self._asked is None or self._asked == told.dataset:
            return True
        return told.place is not None and Path(self._asked).expanduser().resolve() == Path(told.place)

    @cached_property
    def _division(self) -> Division:
        return find_division(self.weights, self.model.card.provenance)

    @property
    def _follows_training(self) -> bool:
        """Whether the data are divided into training and test images as training divided them."""
        return self._same_place and not self._options.keys() & {"split", "split_seed"}

    @property
    def _follows_manifest(self) -> bool:
        return self._follows_training and self._division.manifest is not None and bool(self.dataset.manifest)

    @property
    def _overridden(self) -> bool:
        """Whether an option was asked for that differs from training's."""
        told = self.trained_on
        return told is not None and any(told.options.get(k) != v for k, v in self._options.items())

    def _warn_of_changes(self, dataset: DataSet) -> None:
        """Compare the data with the digests recorded at training."""
        told = self.trained_on
        if told is None or not told.digests or not self._same_place or self._overridden:
            return
        changed = sorted(k for k, v in dataset.digests.items() if told.digests.get(k, v) != v)
        if changed:
            logger.warning(
                "The data set '%s' has changed since '%s' was trained on it: %s.",
                dataset.name,
                self.weights,
                ", ".join(changed),
            )


def fit_dataset(dataset: DataSet, model: CapsuleModel, weights: str) -> DataSet:
    """Give a data set the weights' own pre-processing and order of classes; refuse one that does not fit."""
    card = model.card
    if card.preprocessing and card.preprocessing != dataset.preprocessing.to_dict():
        own = Preprocessing.from_dict(card.preprocessing)
        size = own.crop or own.resize or dataset.image_shape[1:]
        channels = dataset.image_shape[0]
        dataset = replace(dataset, preprocessing=own, image_shape=(channels, size[0], size[1]))
    check_fits(model, dataset, weights)
    return order_classes(dataset, card.class_names, weights)


def check_fits(model: CapsuleModel, dataset: DataSet, weights: str) -> None:
    """Refuse a data set whose images or number of classes are not the model's."""
    if model.image_shape != dataset.image_shape or model.architecture.num_classes != dataset.num_classes:
        ours = "x".join(map(str, model.image_shape))
        theirs = "x".join(map(str, dataset.image_shape))
        raise CapsNetError(
            f"The weights '{weights}' take {ours} images of {model.architecture.num_classes} classes, but "
            f"'{dataset.name}' has {theirs} images of {dataset.num_classes} classes."
        )


def order_classes(dataset: DataSet, class_names: Sequence[str], weights: str) -> DataSet:
    """Number the classes of a data set as `class_names` does; an empty list leaves them as they are."""
    if not class_names or tuple(class_names) == dataset.class_names:
        return dataset
    if set(class_names) != set(dataset.class_names):
        missing = sorted(set(dataset.class_names) - set(class_names))
        raise CapsNetError(
            f"The weights '{weights}' don't know the class '{missing[0]}' of '{dataset.name}'; "
            f"their classes are: {', '.join(class_names)}."
        )
    place = torch.tensor([list(class_names).index(name) for name in dataset.class_names])

    renumbered: dict[str, Any] = {
        field.name: value._replace(labels=place.to(value.labels.device)[value.labels])
        for field in fields(dataset)
        if isinstance(value := getattr(dataset, field.name), Split)
    }
    return replace(dataset, class_names=tuple(class_names), **renumbered)


def _with_runs_split(card: Card, weights: str) -> TrainedOn | None:
    """Complete a card that does not say how its data were divided from the configuration of the run that it lies in."""
    told = card.trained_on
    run = weights_folder(weights).parent / CONFIG
    if told is None or "hold_out" in card.provenance or not run.is_file():
        return told
    settings = read_json(run)
    if not isinstance(settings, dict) or "recipe" not in settings:  # not a run's
        return told
    config = Config.from_dict(settings)
    return replace(told, hold_out=config.hold_out, fold=config.fold, limit=config.limit)


def _find_again(told: TrainedOn, weights: str) -> str:
    """The name of the weights' own data set, or the path where it is now."""
    if told.place is None:
        return told.dataset
    for path in (told.place, told.dataset):
        if Path(path).expanduser().exists():
            return path
    raise CapsNetError(
        f"The pictures that '{weights}' was trained on are no longer at {told.place}; name the data set."
    )


def _stored_shape(model: CapsuleModel) -> dict[str, Any]:
    """The options that bring your own pictures to the size and the colours of the model's."""
    channels, *size = model.image_shape
    prepared = Preprocessing.from_dict(model.card.preprocessing) if model.card.preprocessing else None
    if prepared is not None and (prepared.resize or prepared.crop):
        return {}
    return {"image_size": size, "channels": channels}
