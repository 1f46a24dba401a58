"""Where commands print: tables and JSON on stdout, progress and errors on stderr."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Names of files and classes are the user's: [red] or :cat: in them is text, never markup.
out = Console(markup=False, emoji=False)
errors = Console(stderr=True, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """Print one JSON document, for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False), flush=True)


@contextmanager
def reading_bar() -> Iterator[None]:
    """Show how far reading files is, and the time left, while any command in the block reads many."""
    from capsnet.data.reading import reporting

    bar = ReadingBar()
    try:
        with reporting(bar.report):
            yield
    finally:
        bar.stop()


class ReadingBar:
    """A progress bar that appears with the first file and is gone with the last; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def report(self, doing: str, done: int, total: int) -> None:
        if not errors.is_terminal:
            return
        if self._bar is None:
            from rich.errors import LiveError
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=errors, transient=True)
            self._task = self._bar.add_task(doing, total=total)
            try:
                self._bar.start()
            except LiveError:  # a command that shows a bar of its own keeps it
                return
        assert self._task is not None
        self._bar.update(self._task, description=doing, completed=done, total=total)
        if done == total:
            self.stop()

    def stop(self) -> None:
        """Take the bar away; another reading begins another."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None
