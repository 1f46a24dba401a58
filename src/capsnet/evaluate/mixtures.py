"""An ensemble as one weights folder: its networks as a mixture (`capsnet.models.mixture`) with a card of its own.

The card keeps what all members have in common, such as the data set, and lists where they differ: model, recipe, seed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capsnet.card import Card
from capsnet.errors import CapsNetError
from capsnet.evaluate.ensembles import short_names
from capsnet.files import new_folder
from capsnet.models.base import CapsuleModel
from capsnet.models.mixture import mix
from capsnet.saving import load, save

# The seed among them: without one nobody takes a mixture's data for divided by it.
OF_TRAINING = ("recipe", "seed", "epochs", "commit", "start", "init", "teacher")


def save_mixture(
    places: Sequence[str], out: Path, *, views: str | None = None, score: Mapping[str, Any] | None = None
) -> CapsuleModel:
    """Write the mixture of several weights into the new folder `out`, and return it.

    Args:
        places: run folders, weights folders or bundled names.
        views: for `capsnet.models.mixture.mix`.
        score: what was measured of the mixture, for its card.
    """
    models = [load(place) for place in places]
    first = models[0].card
    for place, model in zip(places, models, strict=True):
        if model.card.class_names != first.class_names:
            raise CapsNetError(f"'{place}' and '{places[0]}' have other classes, or another order of them.")
        if model.card.preprocessing != first.preprocessing:
            raise CapsNetError(
                f"'{place}' and '{places[0]}' take pixels that are prepared in different ways."
            )
    made = mix(models, views=views)
    made.card = Card(
        first.class_names,
        first.preprocessing,
        describe_members(short_names(places), models),
        dict(score or {}),
    )
    with new_folder(out) as folder:
        save(made, folder)
    return made


def describe_members(names: Sequence[str], models: Sequence[CapsuleModel]) -> dict[str, Any]:
    """Return a mixture's provenance: what its members' have in common but for their training, and each member's training."""
    told = [model.card.provenance for model in models]
    common = {k: v for k, v in told[0].items() if all(k in other and other[k] == v for other in told)}
    return {
        **{k: v for k, v in common.items() if k not in OF_TRAINING},
        "recipe": "mixture",
        "members": [
            {
                "name": name,
                "model": model.architecture.name,
                **{k: card[k] for k in OF_TRAINING[:4] if k in card},
            }
            for name, model, card in zip(names, models, told, strict=True)
        ],
    }
