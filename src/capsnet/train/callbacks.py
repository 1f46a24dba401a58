"""What can take part in a training: progress bars, logs, and code of your own.

Subclass `Callback`, override what you need, and pass it to `capsnet.train(..., callbacks=[...])`. The names are those of
PyTorch Lightning where it has them. Every method gets the running `Training` (loop.py), whose `model`, `history`, `epoch`,
`step`, `loss` and `stop()` are for callbacks. A callback that draws random numbers should use a generator of its own.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capsnet.train.loop import Training


class Callback:
    """Does nothing; override the methods that you need."""

    def on_train_start(self, run: "Training") -> None:
        """Called once, before the first step, or before the next one of a resumed run."""

    def on_epoch_start(self, run: "Training") -> None:
        """Called before an epoch's first step, and before the next one where an epoch is resumed."""

    def on_step(self, run: "Training") -> None:
        """Called after each step."""

    def on_epoch_end(self, run: "Training", row: dict[str, Any]) -> None:
        """Called after validation; `row` is the epoch's row of `metrics.csv` and the last of `run.history`."""

    def on_train_end(self, run: "Training") -> None:
        """Called after the last step, before the selected weights are tested."""

    def on_test_batch(self, run: "Training", images: int) -> None:
        """Called during the test, whenever so many more images are done."""

    def teardown(self) -> None:
        """Called at the end, also when training was interrupted or failed."""
