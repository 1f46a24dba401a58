"""Many files read in parallel within a bound of memory, with word of how far it is. No torch.

A command shows the progress with `reporting` around whatever reads (`capsnet.cli.console.reading_bar`).
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from capsnet.errors import CapsNetError
from capsnet.machine import cores

T = TypeVar("T")
R = TypeVar("R")

MEMORY = 1 << 30
AHEAD = 16  # files per thread that are begun before the first of them is asked for

# What is being done, how many are done, of how many.
Progress = Callable[[str, int, int], None]
_progress: ContextVar[Progress | None] = ContextVar("reading", default=None)


@contextmanager
def reporting(progress: Progress) -> Iterator[None]:
    """Have everything that is read in the block tell `progress` how far it is."""
    token = _progress.set(progress)
    try:
        yield
    finally:
        _progress.reset(token)


def tell_progress(doing: str, done: int, total: int) -> None:
    """Tell whoever wants to know (`reporting`) how far something is."""
    report = _progress.get()
    if report:
        report(doing, done, total)


class MemoryBudget:
    """Lets work begin only while all that is under way takes no more than `limit` bytes; a larger one waits to be alone."""

    def __init__(self, limit: int = MEMORY) -> None:
        self.limit, self.taken = limit, 0
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, count: int) -> Iterator[None]:
        count = min(count, self.limit)
        with self._changed:
            self._changed.wait_for(lambda: self.taken + count <= self.limit)
            self.taken += count
        try:
            yield
        finally:
            with self._changed:
                self.taken -= count
                self._changed.notify_all()


def read_all(
    items: Sequence[T], read: Callable[[T], R], doing: str, memory: Callable[[T], int] | None = None
) -> Iterator[tuple[T, R | CapsNetError]]:
    """Give each item with what `read` makes of it, or with its refusal, in order and a few at a time.

    Args:
        doing: what a progress bar says, such as "reading pictures".
        memory: the bytes that reading an item takes; together they stay below `MEMORY`.
    """
    budget = MemoryBudget()

    def attempt(item: T) -> R | CapsNetError:
        try:
            with budget.reserve(memory(item) if memory else 0):
                return read(item)
        except CapsNetError as error:
            return error

    threads = cores()
    with ThreadPoolExecutor(threads) as pool:
        results = _in_order(pool, attempt, items, threads * AHEAD)
        try:
            for done, (item, result) in enumerate(zip(items, results, strict=True), start=1):
                yield item, result
                tell_progress(doing, done, len(items))
        finally:
            pool.shutdown(cancel_futures=True)


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[T], R], items: Iterable[T], ahead: int
) -> Iterator[R]:
    """`pool.map` that never has more than `ahead` results waiting."""
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
