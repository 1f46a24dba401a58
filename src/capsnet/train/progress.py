"""What a person sees while a network trains: a bar on a terminal, plain lines elsewhere, TensorBoard where it is installed."""

import importlib.util
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from capsnet.train.prepare import Plan


class Reporter(Protocol):
    """Hears what the training loop does."""

    def start(self, title: str, plan: "Plan") -> None: ...
    def epoch_begins(self, epoch: int, done: int) -> None: ...
    def step(self, images: int, loss: float, rate: float) -> None: ...
    def epoch_ends(self, row: dict[str, Any]) -> None: ...
    def test_begins(self, images: int) -> None: ...
    def tested(self, images: int) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self) -> None: ...


class Silent:
    """Says nothing."""

    def start(self, title: str, plan: "Plan") -> None: ...
    def epoch_begins(self, epoch: int, done: int) -> None: ...
    def step(self, images: int, loss: float, rate: float) -> None: ...
    def epoch_ends(self, row: dict[str, Any]) -> None: ...
    def test_begins(self, images: int) -> None: ...
    def tested(self, images: int) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self) -> None: ...


def describe(row: dict[str, Any], epochs: int) -> str:
    """One line for one finished epoch."""
    parts = [f"epoch {row['epoch']}/{epochs}", f"loss {row['loss']:.5f}"]
    if row["validation_error_percent"] is not None:
        parts.append(f"validation error {row['validation_error_percent']:.2f} %")
    parts += [f"{row['images_per_second']:.0f} images/s", f"{row['seconds']:.0f} s"]
    return " · ".join(parts)


class Lines(Silent):
    """A line every half minute and at the end of each epoch, for logs."""

    EVERY = 30.0

    def __init__(self, console: Console) -> None:
        self.console = console

    def start(self, title: str, plan: "Plan") -> None:
        self.epochs, self.per_epoch = plan.epochs, plan.images_per_epoch
        self.total = round(plan.images_per_epoch * plan.total_steps / plan.steps_per_epoch)
        self.console.print(title, highlight=False, soft_wrap=True)

    def epoch_begins(self, epoch: int, done: int) -> None:
        self.epoch, self.done, self.last = epoch, done, time.monotonic()

    def step(self, images: int, loss: float, rate: float) -> None:
        self.done += images
        if time.monotonic() - self.last < self.EVERY:
            return
        self.last = time.monotonic()
        left = (self.total - self.per_epoch * (self.epoch - 1) - self.done) / rate
        self.say(
            f"epoch {self.epoch}/{self.epochs} · {self.done:,}/{self.per_epoch:,} · loss {loss:.5f} · "
            f"{rate:.0f} images/s · {left / 60:.1f} min left"
        )

    def epoch_ends(self, row: dict[str, Any]) -> None:
        self.say(describe(row, self.epochs))

    def test_begins(self, images: int) -> None:
        self.total, self.done, self.last = images, 0, time.monotonic()

    def tested(self, images: int) -> None:
        self.done += images
        if time.monotonic() - self.last >= self.EVERY:
            self.last = time.monotonic()
            self.say(f"tested {self.done:,} of {self.total:,}")

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)


class Bar(Lines):
    """A live bar with speed, loss and time left; finished epochs scroll away above it."""

    def start(self, title: str, plan: "Plan") -> None:
        super().start(title, plan)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            expand=True,
        )
        self.task = self.progress.add_task("", total=self.total, note="")
        self.validation = ""
        self.progress.start()

    def epoch_begins(self, epoch: int, done: int) -> None:
        super().epoch_begins(epoch, done)
        self.progress.update(
            self.task,
            completed=(epoch - 1) * self.per_epoch + done,
            description=f"epoch {epoch}/{self.epochs}",
        )

    def step(self, images: int, loss: float, rate: float) -> None:
        note = f"loss {loss:.4f}{self.validation} {rate:.0f}/s"
        self.progress.update(self.task, advance=images, note=note)

    def epoch_ends(self, row: dict[str, Any]) -> None:
        super().epoch_ends(row)
        if row["validation_error_percent"] is not None:
            self.validation = f" val {row['validation_error_percent']:.2f} %"

    def test_begins(self, images: int) -> None:
        super().test_begins(images)
        self.progress.reset(self.task, total=images, description="testing", note="")

    def tested(self, images: int) -> None:
        self.progress.advance(self.task, images)

    def close(self) -> None:
        if hasattr(self, "progress"):
            self.progress.stop()


class TensorBoard(Silent):
    """Passes everything on, and logs each epoch for TensorBoard."""

    def __init__(self, inner: Reporter, folder: Path) -> None:
        self.inner, self.folder = inner, folder
        self.writer: SummaryWriter | None = None
        self.epoch_begins = inner.epoch_begins  # type: ignore[method-assign]
        self.step, self.say = inner.step, inner.say  # type: ignore[method-assign]
        self.test_begins, self.tested = inner.test_begins, inner.tested  # type: ignore[method-assign]

    def start(self, title: str, plan: "Plan") -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(self.folder / "tensorboard"))
        self.inner.start(title, plan)

    def epoch_ends(self, row: dict[str, Any]) -> None:
        self.inner.epoch_ends(row)
        for key, value in row.items():
            if self.writer and key != "epoch" and value is not None:
                self.writer.add_scalar(key, value, row["epoch"])

    def close(self) -> None:
        if self.writer:
            self.writer.close()
        self.inner.close()


def make_reporter(folder: Path, console: Console) -> Reporter:
    """A bar on a terminal, lines elsewhere; TensorBoard logs when that extra is installed."""
    inner: Reporter = Bar(console) if console.is_terminal else Lines(console)
    return TensorBoard(inner, folder) if importlib.util.find_spec("tensorboard") else inner
