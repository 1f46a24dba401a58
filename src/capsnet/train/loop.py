"""The training loop: train a network, select it on held-out training images, and test it once.

Every step is a function of the seed and its own number (randomness.py), so a run that is killed at any moment and resumed from
its last state repeats the lost steps exactly and ends with the same bits.

Under torchrun every process runs this loop on its share of each batch (distributed.py).
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from capsnet.config import Config
from capsnet.data.base import Batch, Split
from capsnet.devices import choose_device, set_threads
from capsnet.errors import CapsNetError
from capsnet.evaluate.metrics import evaluate
from capsnet.models.base import CapsuleModel
from capsnet.train.averaging import take_statistics
from capsnet.train.budget import images_within
from capsnet.train.callbacks import Callback
from capsnet.train.distributed import Team, join_team
from capsnet.train.finish import finish, keep_weights, sample, watch_test
from capsnet.train.interrupt import Interrupted, deferred_interrupt
from capsnet.train.order import balanced_order, epoch_order
from capsnet.train.prepare import (
    build_model,
    check_recipe,
    choose_augmentations,
    fit_batch,
    flushed_denormals,
    keep_freed_memory,
    plan_run,
    prepare_splits,
)
from capsnet.train.randomness import generator
from capsnet.train.run_data import NEW, keep_manifest, load_run_data, run_division
from capsnet.train.run_folder import RunFolder
from capsnet.train.state import Progress, diverged, exhausted, load_state, save_state, share_state
from capsnet.train.step import Learner
from capsnet.train.teacher import find_teacher
from capsnet.waiting import sharing_cores
from capsnet.wording import counted


def train(
    config: Config,
    folder: Path,
    *,
    resume: bool = False,
    data_dir: Path | None = None,
    callbacks: Sequence[Callback] = (),
    save_every: float = 20.0,
) -> dict[str, Any]:
    """Train `config` in `folder`, saving a state every `save_every` seconds, and return the content of its result.json."""
    keep_freed_memory()
    run = RunFolder(folder)
    with contextlib.ExitStack() as stack:
        stack.callback(tear_down, callbacks)
        team = stack.enter_context(join_team(choose_device(config.device)))
        stack.enter_context(flushed_denormals())
        with team.agreeing():
            opened = (run.open(config, resume=resume), run.settled(config)) if team.leads else (None, config)
        finished, config = team.from_leader(opened)
        if finished:
            return finished
        training = Training(config, run, team, data_dir=data_dir, callbacks=callbacks, save_every=save_every)
        # DistributedDataParallel must be gone before its processes part: the last to hold their group would wait forever.
        stack.callback(training.learner.release)
        with team.agreeing():
            if team.leads:
                stack.enter_context(run.locked())
        training.restore()
        stack.enter_context(sharing_cores(training.threads))
        training.fit()
        return finish(training)


def tear_down(callbacks: Sequence[Callback]) -> None:
    for callback in callbacks:
        callback.teardown()


class Training:
    """One run while it trains: what is trained on what, and how it stands. Callbacks get this object.

    Attributes:
        learner: the model with its optimiser and averages; `model` is the model itself.
        now: the progress, as it is saved.
        start: which of the first values come from other weights, and what is frozen.
        epoch: the number of the running epoch, from 1.
        loss: of the last step.
    """

    def __init__(
        self,
        config: Config,
        run: RunFolder,
        team: Team,
        *,
        data_dir: Path | None = None,
        callbacks: Sequence[Callback] = (),
        save_every: float = 20.0,
    ) -> None:
        self.config, self.run, self.team = config, run, team
        self.callbacks, self.save_every = callbacks, save_every
        self.threads = set_threads(config.threads)
        with team.agreeing():
            division = run_division(run.path) if team.leads else NEW
        division = team.from_leader(division)
        with team.agreeing():
            self.dataset = load_run_data(config, run.path, division, data_dir)
            self.augmentations = choose_augmentations(config.recipe, self.dataset)
            train_split, self.validation_split = prepare_splits(config, self.dataset)
            self.train_split = Split(*(t.to(team.device) for t in train_split))
            # Batches come from these images alone; pairs find their partners here.
            self.training_data = replace(self.dataset, train=self.train_split, groups={})
            self.recipe = fit_batch(config.recipe, len(train_split.labels))
            model, self.start = build_model(config, self.dataset)
            check_recipe(self.recipe, model, self.validation_split)
            self.teacher = find_teacher(config, self.dataset, model, team.device)
            # Convolutions prefer channels last on CPUs and tensor cores: benchmarks/README.md has the measurement.
            model.to(team.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        team.synchronise_norms(model)
        if self.recipe.minutes and not self.recipe.images:
            images = team.from_leader(images_within(self, model))
            self.recipe = replace(self.recipe, images=images)
            self.config = replace(config, recipe=replace(config.recipe, images=images))
        self.plan = plan_run(self.recipe, self.images_per_epoch)
        self.learner = Learner(
            model,
            self.recipe,
            self.plan,
            seed=config.seed,
            team=team,
            precision=config.precision,
            compile=config.compile,
            teacher=self.teacher,
        )
        self.now = Progress()
        self.epoch, self.loss = 0, float("nan")
        self._stop = False
        self._batches: Iterator[tuple[int, Tensor]] | None = None
        self._saved_at = time.monotonic()

    @property
    def model(self) -> CapsuleModel:
        return self.learner.model

    @property
    def images_per_epoch(self) -> int:
        return len(self.train_split.labels) * self.dataset.views

    @property
    def history(self) -> list[dict[str, Any]]:
        """One row for each finished epoch."""
        return self.now.rows

    @property
    def step(self) -> int:
        """How many steps have been taken."""
        return self.now.step

    @property
    def mean_loss(self) -> float:
        """The mean loss of the running epoch so far."""
        return self.now.loss_sum / self.now.images

    @property
    def images_per_second(self) -> float:
        return self.now.rate(self.plan.images_per_epoch)

    def stop(self) -> None:
        """End training after this step: its epoch is cut short, validated and kept, and the run is tested as usual."""
        self._stop = True

    def tell(self, event: str, *details: Any) -> None:
        """Call the method `event` of every callback."""
        for callback in self.callbacks:
            getattr(callback, event)(self, *details)

    def describe(self) -> str:
        """Return one line on what is trained on what."""
        config, plan = self.config, self.plan
        return (
            f"{config.model} on {self.dataset.name}: {counted(plan.epochs, 'epoch')} of "
            f"{counted(plan.images_per_epoch, 'image')}, batch {self.recipe.batch_size}, "
            f"{self.team.describe(self.threads)}, in {self.run.path}"
        )

    def restore(self) -> None:
        """Continue from the folder's state, or write the configuration and a first state."""
        with self.team.agreeing():
            if self.team.leads and self.run.started:
                self.now = load_state(self.run.path, self.learner)
            elif self.team.leads:
                self.run.write_config(self.config)
                keep_manifest(self.config, self.dataset, self.run.path)
                self._save()
        self.now = share_state(self.learner, self.now)

    def fit(self) -> None:
        """Take the steps that are left."""
        self.tell("on_train_start")
        with deferred_interrupt() as interrupted:
            while self.now.step < self.plan.total_steps and not self.now.stopped:
                self._step()
                flags = self.team.add_up([interrupted.is_set(), self._stop])
                interrupt, stop = (flag > 0 for flag in flags)
                last = self.now.step == self.plan.total_steps or stop
                epoch_done = last or self.now.step % self.plan.steps_per_epoch == 0
                if epoch_done:
                    self._end_epoch()
                due = time.monotonic() - self._saved_at > self.save_every
                if self.team.leads and (due or interrupt or epoch_done):
                    self._save()
                if interrupt:
                    text = (
                        f"Stopped at step {self.now.step} of {self.plan.total_steps}; --resume continues it."
                    )
                    raise self.team.once(Interrupted(text), code=130)
        self.tell("on_train_end")

    def batches(self, epoch: int, first: int = 0) -> Iterator[tuple[int, Int[Tensor, "b"]]]:
        """Yield the step and the images of each batch of an epoch, both counted from 0; `first` batches are left out."""
        seed, labels, views = self.config.seed, self.train_split.labels, self.dataset.views
        if self.recipe.balanced:
            order = balanced_order(seed, epoch, labels, views)
        else:
            order = epoch_order(seed, epoch, len(labels), views)
        parts = order.to(self.team.device).split(self.recipe.batch_size)
        for index, rows in enumerate(parts[first:], start=first):
            yield epoch * len(parts) + index, rows

    def batch(self, step: int, rows: Int[Tensor, "b"], *, late: bool) -> Batch:
        """Return the augmented batch of a step."""
        noise = generator(self.config.seed, "augment", step, device=self.team.device)
        shown = self.train_split.select(rows)
        return self.training_data.training_batch(shown, self.augmentations[late], noise)

    def _step(self) -> None:
        now = self.now
        epoch, index = divmod(now.step, self.plan.steps_per_epoch)
        if self._batches is None or index == 0:
            self._batches, self.epoch = self.batches(epoch, index), epoch + 1
            self.tell("on_epoch_start")
        began = time.perf_counter()
        step, rows = next(self._batches)
        late = step >= self.recipe.late_from * self.plan.total_steps
        self.loss = self.learner.step(self.batch(step, rows, late=late), step)
        now.loss_sum += self.loss * len(rows)
        now.images += len(rows)
        now.step += 1
        now.seconds += time.perf_counter() - began
        if now.loss_sum != now.loss_sum or abs(now.loss_sum) == float("inf"):
            raise self.team.once(CapsNetError(diverged(now.step, self.run.path)))
        self.tell("on_step")

    def _end_epoch(self) -> None:
        """Validate, keep the weights, and begin the next epoch's sums."""
        now, model = self.now, self.learner.trained
        if self.recipe.plain_statistics:
            some = sample(self.train_split, self.recipe.plain_statistics)
            take_statistics(model, (batch.images for batch in self.dataset.evaluation_batches(some, 250)))
        now.rows.append(row := self._row())
        now.loss_sum, now.images = 0.0, 0
        if self.team.leads:
            keep_weights(self)
            self.run.write_metrics(now.rows)
        self.tell("on_epoch_end", row)
        now.stopped = self.team.any(self._stop) or exhausted(now.rows, self.recipe.patience)

    def _row(self) -> dict[str, Any]:
        now, held_out, team = self.now, self.validation_split, self.team
        scores = None
        if held_out:
            scores = evaluate(
                self.learner.trained, self.dataset, held_out, shard=team.share, add_up=team.add_up
            )
        seconds = now.seconds - sum(row["seconds"] for row in now.rows)
        return {
            "epoch": self.epoch,
            "loss": self.mean_loss,
            "learning_rate": self.learner.learning_rate(now.step - 1),
            "validation_error_percent": scores.error_percent if scores else None,
            "validation_loss": scores.loss if scores else None,
            "images_per_second": now.images / seconds,
            "seconds": seconds,
            **(watch_test(self) if self.config.watch_test else {}),
        }

    def _save(self) -> None:
        save_state(self.run.path, self.learner, self.now)
        self._saved_at = time.monotonic()
