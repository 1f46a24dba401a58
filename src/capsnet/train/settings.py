"""From what a user asks for to a run's configuration: the defaults, and which settings replace which.

The command line and `capsnet.train` both make their configuration here, without torch.
"""

import dataclasses
from pathlib import Path
from typing import Any

from capsnet.config import Config, Recipe
from capsnet.data.registry import usual_hold_out
from capsnet.errors import CapsNetError, unknown_name
from capsnet.train.recipes import get_recipe

PAPER_MODELS = {
    "multimnist": "efficient_capsnet_multimnist",
    "smallnorb": "efficient_capsnet_smallnorb",
    "toyviews": "efficient_capsnet_smallnorb",
    "eth80": "efficient_capsnet_smallnorb",
    "coil100": "efficient_capsnet_smallnorb",
}
# How long a training is can be said in three ways; the one that is given replaces what the recipe says of the others.
LENGTHS: dict[str, dict[str, Any]] = {
    "epochs": {"least_steps": 0, "images": None, "minutes": None},
    "minutes": {"images": None},
    "images": {"minutes": None},
}
OF_RECIPE = {field.name for field in dataclasses.fields(Recipe)} - {"name"}
OF_CONFIG = {field.name for field in dataclasses.fields(Config)} - {"dataset", "model", "recipe"}


def make_config(
    dataset: str | None,
    *,
    model: str | None = None,
    recipe: str | None = None,
    base: Config | None = None,
    **settings: Any,
) -> Config:
    """Return the configuration of a run.

    Args:
        dataset: a data set's name or path.
        model: the paper's for the data set when left out.
        recipe: quick when left out.
        base: the configuration of another run, to repeat it with some settings replaced.
        settings: fields of `Config` and `Recipe`. None leaves a setting as it is; model_options and dataset_options are
            added to those that there are. `freeze` and `init_parts` may be a single name.
    """
    config = base or _defaults(dataset, model, recipe)
    settings = {name: value for name, value in settings.items() if value is not None}
    for name in settings:
        if name not in OF_CONFIG | OF_RECIPE:
            raise unknown_name("setting", name, OF_CONFIG | OF_RECIPE)
    for name in {"freeze", "init_parts"} & settings.keys():
        parts = settings[name]
        settings[name] = [parts] if isinstance(parts, str) else list(parts)
    if base is not None:
        chosen: dict[str, Any] = {"dataset": dataset, "model": model}
        config = dataclasses.replace(config, **{k: v for k, v in chosen.items() if v is not None})
        if recipe is not None:
            config = dataclasses.replace(config, recipe=get_recipe(recipe, config.dataset, config.model))
    changes = {name: value for name, value in settings.items() if name in OF_RECIPE}
    lengths = [f"--{name}" for name in LENGTHS if name in changes]
    if len(lengths) > 1:
        raise CapsNetError(f"{' and '.join(lengths)} each say how long to train; give one of them.")
    for length, replaced in LENGTHS.items():
        if length in changes:
            changes = {**replaced, **changes}
    changed = {name: value for name, value in settings.items() if name in OF_CONFIG}
    for options in ("model_options", "dataset_options"):
        changed[options] = {**getattr(config, options), **settings.get(options, {})}
    return dataclasses.replace(config, recipe=dataclasses.replace(config.recipe, **changes), **changed)


def _defaults(dataset: str | None, model: str | None, recipe: str | None) -> Config:
    if dataset is None:
        raise CapsNetError(
            "Name a data set to train on, such as `capsnet train mnist`, or a run with --config."
        )
    model = model or PAPER_MODELS.get(dataset, "efficient_capsnet")
    return Config(
        dataset=dataset,
        model=model,
        recipe=get_recipe(recipe or "quick", dataset, model),
        hold_out=usual_hold_out(dataset),
    )


def default_folder(config: Config) -> Path:
    """Return where a run is kept unless the user says: runs/DATASET-MODEL-RECIPE-sSEED."""
    fold = [f"fold{config.fold.replace('/', 'of')}"] if config.fold else []
    parts = (Path(config.dataset).stem, config.model, config.recipe.name, *fold, f"s{config.seed}")
    return Path("runs") / "-".join(parts)
