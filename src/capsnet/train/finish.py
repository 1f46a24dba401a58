"""What is kept of a run: the last and the best weights while it trains, and the one test at its end."""

import copy
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator

from capsnet.card import Card
from capsnet.config import Config
from capsnet.data.base import DataSet, Split
from capsnet.data.pairs import PairDataSet
from capsnet.data.registry import is_path
from capsnet.errors import CapsNetError
from capsnet.evaluate.cost import count_operations, count_parameters
from capsnet.evaluate.evidence import calibrate
from capsnet.evaluate.metrics import Evaluation, evaluate
from capsnet.evaluate.predictions import BEST_ON_TEST, Recorder
from capsnet.models.base import CapsuleModel
from capsnet.saving import load, save
from capsnet.train.initial import Start
from capsnet.train.provenance import provenance

if TYPE_CHECKING:
    from capsnet.train.loop import Training

LEAST_CALIBRATION = 100

logger = logging.getLogger("capsnet.train")


def make_card(
    dataset: DataSet, config: Config, epochs: int, score: dict[str, Any], start: Start | None = None
) -> Card:
    """Return the card that the weights are saved with."""
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
            **({"teacher": config.teacher} if config.teacher is not None else {}),
            **({"start": start.to_dict()} if start else {}),
            "validation": config.validation,
            "hold_out": config.hold_out,
            "fold": config.fold,
            "limit": config.limit,
            "data": dict(dataset.digests),
            **({"division": "content"} if dataset.manifest else {}),
            "epochs": epochs,
        },
        score=score,
    )


def keep_weights(training: "Training") -> None:
    """Save last/ after every epoch, and best/ whenever the validation error is the lowest so far; the loss decides ties."""
    folder, model, now = training.run.path, training.learner.trained, training.now
    row = now.rows[-1]
    score = {"validation_error_percent": row["validation_error_percent"]}
    card = make_card(training.dataset, training.config, row["epoch"], score, training.start)
    save(model, folder / "last", card=card)
    if row["validation_error_percent"] is None:
        return
    key = [row["validation_error_percent"], row["validation_loss"]]
    if now.best_key is None or key < now.best_key:
        now.best_key = key
        save(model, folder / "best", card=card)


def sample(split: Split, most: int) -> Split:
    """Return at most `most` images from all of the split, enough to compare the training error with the test error.

    They are drawn at random, since a fixed stride would be biased: MNIST's odd and even images come from different people.
    """
    total = len(split.labels)
    chosen = torch.randperm(total, generator=Generator().manual_seed(0))[: min(total, most)]
    return split.select(chosen.sort().values)


def watch_test(training: "Training") -> dict[str, float]:
    """Test the weights as they are after an epoch (`--watch-test`); keep the predictions of the epoch with the fewest errors.

    That is how the paper chose its checkpoints. The run's own result does not look at it.
    """
    team, dataset, seen = training.team, training.dataset, Recorder()
    test = evaluate(
        training.learner.trained, dataset, dataset.test, on_scores=seen, shard=team.share, add_up=team.add_up
    )
    seen.scores, seen.classes = team.gather(seen.scores), team.gather(seen.classes)
    errors = test.named_errors("test_")
    (key, error), *_ = errors.items()
    if team.leads and all(error < row[key] for row in training.now.rows):
        seen.write(training.run.path, BEST_ON_TEST)
    return errors


def best_on_test(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the watched test errors of the epoch with the fewest, the first of them; None where none were watched."""
    keys = [key for key in rows[0] if key.startswith("test_")]
    if not keys:
        return None
    best = min(rows, key=lambda row: row[keys[0]])
    return {"epoch": best["epoch"], **{key: best[key] for key in keys}}


def finish(training: "Training") -> dict[str, Any]:
    """Test the selected weights (the best on the validation set, or the last without one), once, and write the run's result.

    Runs that choose settings (`test=False`) leave the test set unread.
    """
    team, dataset, run = training.team, training.dataset, training.run
    shares: dict[str, Any] = {"shard": team.share, "add_up": team.add_up}
    selected = "best" if training.now.best_key else "last"
    with team.agreeing():
        chosen = load(str(run.path / selected)) if team.leads else copy.deepcopy(training.learner.trained)
        chosen = chosen.to(team.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    team.copy_from_leader(chosen)
    seen, test = Recorder(), None
    if training.config.test:

        def on_batch(images: int) -> None:
            training.tell("on_test_batch", images * team.size)

        test = evaluate(chosen, dataset, dataset.test, on_batch=on_batch, on_scores=seen, **shares)
        seen.scores, seen.classes = team.gather(seen.scores), team.gather(seen.classes)
    some = sample(training.train_split, len(dataset.test.labels))
    on_training = evaluate(chosen, dataset, some, **shares)
    result: dict[str, Any] = {}
    with team.agreeing():
        if team.leads:
            if test:
                seen.write(run.path)
            origin = {**provenance(team.device, training.threads), "processes": team.size}
            result = describe(run.path / selected, chosen, training, test, on_training, origin)
            run.write_result(result)
    return team.from_leader(result)


def calibrate_detection(training: "Training", chosen: CapsuleModel) -> dict[str, Any]:
    """Learn from validation images how pictures of none of the classes are noticed; where images hold two classes, nothing."""
    held_out, split = training.validation_split, training.train_split
    which = "training images, as none were held out"
    if held_out is not None and len(held_out.labels) >= LEAST_CALIBRATION:
        which, split = "validation images", held_out
    if isinstance(training.dataset, PairDataSet) or len(split.labels) < LEAST_CALIBRATION:
        return {}
    try:
        return calibrate(chosen, training.dataset, split, which).to_dict()
    except CapsNetError as error:  # a training that diverged still ends with its result
        logger.warning("%s", error)
        return {}


def describe(
    weights: Path,
    chosen: CapsuleModel,
    training: "Training",
    test: Evaluation | None,
    on_training: Evaluation,
    origin: dict[str, Any],
) -> dict[str, Any]:
    """Return the run's result, and save the selected weights with it."""
    config, dataset, recipe, plan, now = (
        training.config,
        training.dataset,
        training.recipe,
        training.plan,
        training.now,
    )
    validation = training.validation_split
    epochs_kept = chosen.card.provenance["epochs"]
    score: dict[str, Any] = {
        **on_training.named_errors("train_"),
        "validation_error_percent": now.best_key[0] if now.best_key else None,
        **(test.named_errors("test_") if test else dict.fromkeys(on_training.named_errors("test_"))),
    }
    card = make_card(dataset, config, epochs_kept, score, training.start)
    detection = calibrate_detection(training, chosen)
    more = {"provenance": {**card.provenance, **origin}, "detection": detection}
    save(chosen, weights, card=Card(**{**vars(card), **more}))
    return {
        "model": config.model,
        "dataset": dataset.name,
        "recipe": config.recipe.name,
        "seed": config.seed,
        "epochs": len(now.rows),
        "images_seen": plan.images_seen(recipe.batch_size, now.step),
        **score,
        "test_errors": test.wrong_images if test else None,
        "test_images": test.images if test else 0,
        "test_loss": test.loss if test else None,
        "selected": {"weights": weights.name, "epoch": epochs_kept},
        "best_on_test": best_on_test(now.rows),
        "images_per_second": sum(r["images_per_second"] * r["seconds"] for r in now.rows) / now.seconds,
        "seconds": now.seconds,
        "train_images": len(training.train_split.labels),
        "validation_images": len(validation.labels) if validation else 0,
        "batch_size": recipe.batch_size,
        "encoder_parameters": count_parameters(chosen.encoder),
        "operations": count_operations(chosen),
        **origin,
        "data": dict(dataset.digests),
        "start": training.start.to_dict() if training.start else None,
        "teacher_sha256": training.teacher.digest if training.teacher else None,
        "config": config.to_dict(),
        "curve": now.rows,
    }
