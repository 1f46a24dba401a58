"""What is kept of a run: the last and the best weights while it goes, the one test at its end."""

import copy
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator

from capsnet.card import Card
from capsnet.config import Config, Recipe
from capsnet.data.base import DataSet, Split
from capsnet.data.registry import is_path
from capsnet.evaluate.cost import count_operations, count_parameters
from capsnet.evaluate.metrics import Evaluation, evaluate
from capsnet.evaluate.predictions import Recorder
from capsnet.models.base import CapsuleModel
from capsnet.saving import load, save
from capsnet.train.distributed import Team
from capsnet.train.prepare import Plan
from capsnet.train.progress import Reporter
from capsnet.train.provenance import provenance
from capsnet.train.run_folder import RunFolder
from capsnet.train.state import Progress


class Training(NamedTuple):
    """What was trained on what, how, and how it went."""

    config: Config
    dataset: DataSet
    train_split: Split
    validation_images: int
    recipe: Recipe
    plan: Plan
    now: Progress


def make_card(dataset: DataSet, config: Config, epochs: int, score: dict[str, Any]) -> Card:
    """What weights are kept with."""
    return Card(
        class_names=dataset.class_names,
        preprocessing=dataset.preprocessing.to_dict(),
        provenance={
            "dataset": dataset.name,
            **(
                {"place": str(Path(config.dataset).expanduser().resolve())} if is_path(config.dataset) else {}
            ),
            "dataset_options": dict(config.dataset_options),
            "recipe": config.recipe.name,
            "seed": config.seed,
            **({"init": config.init} if config.init is not None else {}),
            "validation": config.validation,
            "hold_out": config.hold_out,
            "fold": config.fold,
            "limit": config.limit,
            "data": dict(dataset.digests),
            "epochs": epochs,
        },
        score=score,
    )


def keep_weights(folder: Path, model: CapsuleModel, dataset: DataSet, config: Config, now: Progress) -> None:
    """last/ after every epoch; best/ whenever the validation error is the lowest yet, ties by the loss."""
    row = now.rows[-1]
    score = {"validation_error_percent": row["validation_error_percent"]}
    card = make_card(dataset, config, row["epoch"], score)
    save(model, folder / "last", card=card)
    if row["validation_error_percent"] is None:
        return
    key = [row["validation_error_percent"], row["validation_loss"]]
    if now.best_key is None or key < now.best_key:
        now.best_key = key
        save(model, folder / "best", card=card)


def sample(split: Split, most: int) -> Split:
    """At most so many images, from all of the split: enough for a training error to be set beside the test error.

    By chance, not every so many-th: MNIST's odd and even images come from different people.
    """
    total = len(split.labels)
    chosen = torch.randperm(total, generator=Generator().manual_seed(0))[: min(total, most)]
    return split.select(chosen.sort().values)


def finish(
    run: RunFolder, team: Team, model: CapsuleModel, trained: Training, threads: int, reporter: Reporter
) -> dict[str, Any]:
    """Tests the selected weights (the best on validation; the last without one), once, unless the run is one that chooses
    settings, and writes the run's result."""
    dataset = trained.dataset
    selected = "best" if trained.now.best_key else "last"
    with team.agreeing():
        chosen = load(str(run.path / selected)) if team.leads else copy.deepcopy(model)
        chosen = chosen.to(team.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    team.copy_from_leader(chosen)
    seen, test = Recorder(), None
    if trained.config.test:
        reporter.test_begins(dataset.test_images)
        test = evaluate(
            chosen,
            dataset,
            dataset.test,
            on_batch=lambda images: reporter.tested(images * team.size),
            on_scores=seen,
            shard=team.share,
            add_up=team.add_up,
        )
        seen.scores, seen.classes = team.gather(seen.scores), team.gather(seen.classes)
    training = evaluate(
        chosen,
        dataset,
        sample(trained.train_split, len(dataset.test.labels)),
        shard=team.share,
        add_up=team.add_up,
    )
    result: dict[str, Any] = {}
    with team.agreeing():
        if team.leads:
            if test:
                seen.write(run.path)
            origin = {**provenance(team.device, threads), "processes": team.size}
            result = describe(run.path / selected, chosen, trained, test, training, origin)
            run.write_result(result)
    return team.from_leader(result)


def describe(
    weights: Path,
    chosen: CapsuleModel,
    trained: Training,
    test: Evaluation | None,
    training: Evaluation,
    origin: dict[str, Any],
) -> dict[str, Any]:
    """The run's result; the weights it is of are kept with it."""
    config, dataset, train_split, validation_images, recipe, plan, now = trained
    epochs_kept = chosen.card.provenance["epochs"]
    score: dict[str, Any] = {
        **training.named_errors("train_"),
        "validation_error_percent": now.best_key[0] if now.best_key else None,
        **(test.named_errors("test_") if test else dict.fromkeys(training.named_errors("test_"))),
    }
    card = make_card(dataset, config, epochs_kept, score)
    save(chosen, weights, card=Card(**{**vars(card), "provenance": {**card.provenance, **origin}}))
    return {
        "model": config.model,
        "dataset": dataset.name,
        "recipe": config.recipe.name,
        "seed": config.seed,
        "epochs": plan.epochs,
        "images_seen": plan.images_seen(recipe.batch_size),
        **score,
        "test_errors": test.wrong_images if test else None,
        "test_images": test.images if test else 0,
        "test_loss": test.loss if test else None,
        "selected": {"weights": weights.name, "epoch": epochs_kept},
        "images_per_second": sum(r["images_per_second"] * r["seconds"] for r in now.rows) / now.seconds,
        "seconds": now.seconds,
        "train_images": len(train_split.labels),
        "validation_images": validation_images,
        "batch_size": recipe.batch_size,
        "encoder_parameters": count_parameters(chosen.encoder),
        "operations": count_operations(chosen),
        **origin,
        "data": dict(dataset.digests),
        "config": config.to_dict(),
        "curve": now.rows,
    }
