"""Starting from other weights (`--init`): what the new model is, and which of their values it takes over.

Options that are not given are those of the weights. Whatever the two models share is taken over; only the decoder may
differ, and a decoder that the weights don't have begins with random values.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from capsnet.data.base import DataSet
from capsnet.errors import CapsNetError
from capsnet.models.base import CapsuleModel
from capsnet.opening import check_fits
from capsnet.registry import create_model
from capsnet.saving import load


def start_from(weights: str, dataset: DataSet, name: str, options: Mapping[str, Any]) -> CapsuleModel:
    """Build the model `name` with the given options, for a data set, and give it the values of other weights."""
    source = load(weights)
    theirs = source.architecture
    check_fits(source, dataset, weights)
    if theirs.name != name:
        raise CapsNetError(
            f"The weights '{weights}' are of the model '{theirs.name}', not of '{name}'; say --model {theirs.name}."
        )
    wanted = {**theirs.options, **options}
    if wanted == theirs.options:
        return source
    model = create_model(name, dataset.image_shape, dataset.num_classes, **wanted)
    different = misfit(model.encoder.state_dict(), source.encoder.state_dict())
    if different:
        changed = [key for key, value in options.items() if theirs.options.get(key) != value]
        raise CapsNetError(
            f"The weights '{weights}' cannot begin a model with other {', '.join(changed)}: {different}; "
            f"leave out --init or those options."
        )
    model.encoder.load_state_dict(source.encoder.state_dict())
    if model.decoder is not None and source.decoder is not None:
        values = source.decoder.state_dict()
        if not misfit(model.decoder.state_dict(), values):
            model.decoder.load_state_dict(values)
    return model


def misfit(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str:
    """Say which tensor the given values lack, have too many, or have in another shape; empty when they fit."""
    for name in sorted(wanted.keys() | given.keys()):
        if name not in given:
            return f"they have no '{name}'"
        if name not in wanted:
            return f"the model has no '{name}'"
        if wanted[name].shape != given[name].shape:
            ours, theirs = tuple(wanted[name].shape), tuple(given[name].shape)
            return f"their '{name}' has shape {theirs}, the model needs {ours}"
    return ""
