"""What a person sees while a network trains: a bar on a terminal, lines elsewhere, and TensorBoard where installed."""

import importlib.util
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from capsnet.train.callbacks import Callback

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from capsnet.train.loop import Training


def describe(row: dict[str, Any], epochs: int) -> str:
    """Return one line on a finished epoch."""
    parts = [f"epoch {row['epoch']}/{epochs}", f"loss {row['loss']:.5f}"]
    if row["validation_error_percent"] is not None:
        parts.append(f"validation error {row['validation_error_percent']:.2f} %")
    parts += [f"{row['images_per_second']:.0f} images/s", f"{row['seconds']:.0f} s"]
    return " · ".join(parts)


class Lines(Callback):
    """A line every half minute and at the end of each epoch, for logs."""

    EVERY = 30.0

    def __init__(self, console: Console) -> None:
        self.console = console
        self.last = time.monotonic()
        self.tested = 0

    def on_train_start(self, run: "Training") -> None:
        self.say(run.describe())
        for line in run.start.describe(run.config.init):
            self.say(line)

    def on_epoch_start(self, run: "Training") -> None:
        self.last = time.monotonic()

    def on_step(self, run: "Training") -> None:
        if not self.due():
            return
        rate, images = run.images_per_second, run.plan.images_per_epoch
        left = (total_images(run) - images * (run.epoch - 1) - run.now.images) / rate
        self.say(
            f"epoch {run.epoch}/{run.plan.epochs} · {run.now.images:,}/{images:,} · loss {run.mean_loss:.5f} · "
            f"{rate:.0f} images/s · {left / 60:.1f} min left"
        )

    def on_epoch_end(self, run: "Training", row: dict[str, Any]) -> None:
        self.say(describe(row, run.plan.epochs))

    def on_train_end(self, run: "Training") -> None:
        tests = run.config.test
        self.say("Testing" if tests else "The test set is left unread; evaluating on training images")
        self.last = time.monotonic()

    def on_test_batch(self, run: "Training", images: int) -> None:
        self.tested += images
        if self.due():
            self.say(f"tested {self.tested:,} of {run.dataset.test_images:,}")

    def due(self) -> bool:
        """Return whether it is time for another line."""
        if time.monotonic() - self.last < self.EVERY:
            return False
        self.last = time.monotonic()
        return True

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)


class Bar(Lines):
    """A live bar with speed, loss and time left; finished epochs scroll away above it."""

    def on_train_start(self, run: "Training") -> None:
        super().on_train_start(run)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            expand=True,
        )
        self.task = self.progress.add_task("", total=total_images(run), note="")
        self.validation = ""
        self.progress.start()

    def on_epoch_start(self, run: "Training") -> None:
        self.show(run, f"epoch {run.epoch}/{run.plan.epochs}")

    def on_step(self, run: "Training") -> None:
        note = f"loss {run.mean_loss:.4f}{self.validation} {run.images_per_second:.0f}/s"
        self.show(run, f"epoch {run.epoch}/{run.plan.epochs}", note=note)

    def show(self, run: "Training", description: str, **fields: Any) -> None:
        done = (run.epoch - 1) * run.plan.images_per_epoch + run.now.images
        self.progress.update(self.task, completed=done, description=description, **fields)

    def on_epoch_end(self, run: "Training", row: dict[str, Any]) -> None:
        super().on_epoch_end(run, row)
        if row["validation_error_percent"] is not None:
            self.validation = f" val {row['validation_error_percent']:.2f} %"

    def on_train_end(self, run: "Training") -> None:
        super().on_train_end(run)
        if run.config.test:
            self.progress.reset(self.task, total=run.dataset.test_images, description="testing", note="")

    def on_test_batch(self, run: "Training", images: int) -> None:
        self.progress.advance(self.task, images)

    def teardown(self) -> None:
        if hasattr(self, "progress"):
            self.progress.stop()


class TensorBoard(Callback):
    """Logs each epoch for TensorBoard."""

    writer: "SummaryWriter | None" = None

    def on_train_start(self, run: "Training") -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(run.run.path / "tensorboard"))

    def on_epoch_end(self, run: "Training", row: dict[str, Any]) -> None:
        for key, value in row.items():
            if self.writer and key != "epoch" and value is not None:
                self.writer.add_scalar(key, value, row["epoch"])

    def teardown(self) -> None:
        if self.writer:
            self.writer.close()


def total_images(run: "Training") -> int:
    """Return about how many images the whole run shows."""
    return round(run.plan.images_per_epoch * run.plan.total_steps / run.plan.steps_per_epoch)


def show_progress(console: Console) -> list[Callback]:
    """Return a bar on a terminal, lines elsewhere; and TensorBoard logs where that extra is installed."""
    shown: Callback = Bar(console) if console.is_terminal else Lines(console)
    return [shown, *([TensorBoard()] if importlib.util.find_spec("tensorboard") else [])]
