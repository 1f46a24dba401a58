"""The training loop, top to bottom: a network is trained, selected on held-out training images, and tested once.

Every step is a function of the seed and its own number (see randomness.py), so a run that is killed at any moment and
resumed from its last state repeats the lost steps exactly and ends with the same bits.

Under torchrun every process runs this loop, on its share of each batch: see distributed.py.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from capsnet import kernels
from capsnet.config import Config, Recipe
from capsnet.data import load_dataset
from capsnet.data.base import Batch, Split
from capsnet.devices import choose_device, set_threads
from capsnet.errors import CapsNetError
from capsnet.evaluate.metrics import evaluate
from capsnet.functional.losses import reconstruction_loss
from capsnet.models.base import CapsuleModel
from capsnet.train.averaging import MovingAverage, RunningStatistics, take_statistics
from capsnet.train.distributed import WHOLE, Share, Team, join_team
from capsnet.train.finish import Training, finish, keep_weights, sample
from capsnet.train.prepare import (
    Plan,
    build_model,
    build_optimizer,
    choose_augmentations,
    fit_batch,
    flushed_denormals,
    keep_freed_memory,
    plan_run,
    prepare_splits,
)
from capsnet.train.progress import Reporter, Silent
from capsnet.train.randomness import derive_seed, generator, seed_dropout
from capsnet.train.run_folder import RunFolder
from capsnet.train.schedule import learning_rate
from capsnet.train.selection import hardest
from capsnet.train.state import Progress, diverged, load_state, save_state


class Interrupted(Exception):
    """Ctrl-C, after the state was saved."""


def training_loss(
    model: CapsuleModel, batch: Batch, recipe: Recipe, progress: float, share: Share = WHOLE
) -> Tensor:
    """The model's classification loss plus the weighted reconstruction of each class in the image by its own capsule."""
    b, k = batch.classes.shape
    mine = share.of(batch)
    output = model(mine.images)
    loss = share.weight(b) * model.classification_loss(output, mine.targets, progress=progress)
    if model.decoder is None or recipe.reconstruction_weight == 0:
        return loss
    some = max(1, round(b * recipe.reconstruct_fraction))
    weight, some = share.weight(some) * recipe.reconstruction_weight / k, share.count(some)
    for n in range(k):
        picture = model.reconstruct(output.poses[:some], mine.classes[:some, n])
        loss = loss + weight * reconstruction_loss(picture, mine.originals[:some, n])
    return loss


class Objective(nn.Module):
    """A network with its loss as one module: all that gradients flow through."""

    def __init__(self, model: CapsuleModel, recipe: Recipe, share: Share) -> None:
        super().__init__()
        self.model, self.recipe, self.share = model, recipe, share

    def forward(self, batch: Batch, progress: float) -> Tensor:
        return training_loss(self.model, batch, self.recipe, progress, self.share)


def train(
    config: Config,
    folder: Path,
    *,
    resume: bool = False,
    data_dir: Path | None = None,
    reporter: Reporter | None = None,
    save_every: float = 20.0,
) -> dict[str, Any]:
    """Trains `config` in `folder`, a state every `save_every` seconds, and gives the content of its result.json."""
    keep_freed_memory()
    with join_team(choose_device(config.device)) as team, flushed_denormals():
        return train_in(team, config, RunFolder(folder), resume, data_dir, reporter or Silent(), save_every)


def train_in(
    team: Team,
    config: Config,
    run: RunFolder,
    resume: bool,
    data_dir: Path | None,
    reporter: Reporter,
    save_every: float,
) -> dict[str, Any]:
    """What each process of a team does; alone, all of it."""
    with team.agreeing():
        finished = run.open(config, resume=resume) if team.leads else None
    if finished := team.from_leader(finished):
        return finished

    folder, device, threads = run.path, team.device, set_threads(config.threads)
    with team.agreeing():
        dataset = load_dataset(config.dataset, data_dir=data_dir, **config.dataset_options)
        augmentations = choose_augmentations(config.recipe, dataset)
        train_split, validation_split = prepare_splits(config, dataset)
        train_split = Split(*(t.to(device) for t in train_split))
        recipe = fit_batch(config.recipe, len(train_split.labels))
        # Channels last is the convolutions' own layout on CPUs and tensor cores: benchmarks/README.md has the measurement.
        model = build_model(config, dataset).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    team.synchronise_norms(model)
    kernels.accelerate(model)
    norms = RunningStatistics(model)
    optimizer = build_optimizer(model, recipe)
    average = MovingAverage(model, recipe.average) if recipe.average else None
    evaluated = average.model if average else model
    if config.compile:
        for part in filter(None, (model.encoder, model.decoder)):
            part.compile()

    plan = plan_run(recipe, len(train_split.labels) * dataset.views)
    now = Progress()
    with team.agreeing():
        if team.leads and run.started:
            now = load_state(folder, model, optimizer, average)
        elif team.leads:
            run.write_config(config)
            save_state(folder, model, optimizer, average, now)
    now = share_state(team, model, optimizer, average, now)
    unused = model.decoder is not None and recipe.reconstruction_weight == 0
    objective = team.parallel(Objective(model, recipe, team.share), unused=unused)

    reporter.start(
        f"{config.model} on {dataset.name}: {plan.epochs} epochs of {plan.images_per_epoch:,} images, "
        f"batch {recipe.batch_size}, {team.describe(threads)}, in {folder}",
        plan,
    )
    model.train()
    saved_at = time.monotonic()
    order: Tensor | None = None
    with deferred_interrupt() as interrupted:
        while now.step < plan.total_steps:
            epoch, index = divmod(now.step, plan.steps_per_epoch)
            if order is None or index == 0:
                order = epoch_order(config.seed, epoch, len(train_split.labels), dataset.views).to(device)
                reporter.epoch_begins(epoch + 1, now.images)
            began = time.perf_counter()
            rows = order[index * recipe.batch_size : (index + 1) * recipe.batch_size]
            noise = generator(config.seed, "augment", now.step, device=device)
            augmentation = augmentations[now.step >= recipe.late_from * plan.total_steps]
            batch = dataset.training_batch(train_split.select(rows), augmentation, noise)
            seed_dropout(device, derive_seed(config.seed, "dropout", now.step, *team.place))
            if not config.compile:  # each new momentum would be compiled anew
                norms.follow(now.step)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(recipe, now.step, plan.steps_per_epoch, plan.total_steps)
            with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16"):
                if recipe.learn_from < 1:
                    batch = hardest(model, batch, recipe.learn_from)
                loss = objective(batch, now.step / plan.total_steps) * (len(batch.images) / len(rows))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            team.average_statistics(model)
            if average:
                average.update(model, now.step)

            now.loss_sum += team.mean(loss.item()) * len(rows)
            now.images += len(rows)
            now.step += 1
            now.seconds += time.perf_counter() - began
            if now.loss_sum != now.loss_sum or abs(now.loss_sum) == float("inf"):
                raise team.once(CapsNetError(diverged(now.step, folder)))
            reporter.step(len(rows), now.loss_sum / now.images, now.rate(plan.images_per_epoch))

            epoch_done = now.step % plan.steps_per_epoch == 0 or now.step == plan.total_steps
            if epoch_done:
                if recipe.plain_statistics:
                    plain = dataset.evaluation_batches(sample(train_split, recipe.plain_statistics), 250)
                    take_statistics(evaluated, (some.images for some in plain))
                row = end_epoch(now, team, evaluated, dataset, validation_split, recipe, plan)
                if team.leads:
                    keep_weights(folder, evaluated, dataset, config, now)
                    run.write_metrics(now.rows)
                reporter.epoch_ends(row)
            due = time.monotonic() - saved_at > save_every
            stopping = team.any(interrupted.is_set())
            if team.leads and (due or stopping or epoch_done):
                save_state(folder, model, optimizer, average, now)
                saved_at = time.monotonic()
            if stopping:
                text = f"Stopped at step {now.step} of {plan.total_steps}; --resume continues it."
                raise team.once(Interrupted(text), code=130)

    reporter.say("Testing" if config.test else "The test set is left unread; evaluating on training images")
    held_out = len(validation_split.labels) if validation_split else 0
    trained = Training(config, dataset, train_split, held_out, recipe, plan, now)
    return finish(run, team, evaluated, trained, threads, reporter)


def share_state(
    team: Team,
    model: CapsuleModel,
    optimizer: torch.optim.Optimizer,
    average: MovingAverage[CapsuleModel] | None,
    now: Progress,
) -> Progress:
    """Puts the leader's state into the other processes, of which only the leader need see the run's folder."""
    entries = optimizer.state_dict()["state"]
    moments = {n: {key: value.cpu() for key, value in entry.items()} for n, entry in entries.items()}
    now, moments = team.from_leader((now, moments))
    team.copy_from_leader(model)
    if average:
        team.copy_from_leader(average.model)
    if not team.leads:
        optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    return now


def epoch_order(seed: int, epoch: int, images: int, views: int) -> Tensor:
    """Every image `views` times, shuffled anew each epoch."""
    order = torch.randperm(images * views, generator=generator(seed, "order", epoch))
    return order % images


def end_epoch(
    now: Progress,
    team: Team,
    model: CapsuleModel,
    dataset: Any,
    validation: Split | None,
    recipe: Recipe,
    plan: Plan,
) -> dict[str, Any]:
    """Adds the epoch's row to `now` and begins the next one."""
    scores = (
        evaluate(model, dataset, validation, shard=team.share, add_up=team.add_up) if validation else None
    )
    seconds = now.seconds - sum(row["seconds"] for row in now.rows)
    row = {
        "epoch": -(-now.step // plan.steps_per_epoch),
        "loss": now.loss_sum / now.images,
        "learning_rate": learning_rate(recipe, now.step - 1, plan.steps_per_epoch, plan.total_steps),
        "validation_error_percent": scores.error_percent if scores else None,
        "validation_loss": scores.loss if scores else None,
        "images_per_second": now.images / seconds,
        "seconds": seconds,
    }
    now.rows.append(row)
    now.loss_sum, now.images = 0.0, 0
    return row


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """Ctrl-C sets a flag that is looked at between steps, where the state is whole; a second one stops at once."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = signal.getsignal(signal.SIGINT)

    def on_interrupt(*_: object) -> None:
        flag.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before)
