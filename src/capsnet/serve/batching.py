"""Requests that arrive together are computed together.

A network of 161 K parameters spends much of a forward pass on overhead that a batch shares. The first request of a
batch waits a moment for others; while a batch is computed, the next one gathers by itself. Computing happens in one
thread, so that the event loop keeps reading and answering.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.exceptions import HTTPException

from capsnet.serve.limits import Limits

Job = TypeVar("Job", bound="Sized")
Answer = TypeVar("Answer")


class Sized:
    """A request's share of a batch."""

    images: int


@dataclass
class _Waiting(Generic[Job, Answer]):
    job: Job
    answer: "asyncio.Future[Answer]"


class Batcher(Generic[Job, Answer]):
    """Gives `run` lists of jobs of at most `limits.images` images and each caller the answer to its own."""

    def __init__(
        self, run: Callable[[Sequence[Job]], Sequence[Answer]], limits: Limits, executor: Executor
    ) -> None:
        self._run = run
        self._limits = limits
        self._executor = executor
        self._waiting: deque[_Waiting[Job, Answer]] = deque()
        self._images = 0
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._began: float | None = None
        self.batches = 0

    @property
    def waiting(self) -> int:
        """Images that wait."""
        return self._images

    @property
    def seconds_computing(self) -> float:
        """How long the batch takes that is being computed; 0 when there is none."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def start(self) -> None:
        """Begins to compute; needs a running event loop."""
        self._task = asyncio.create_task(self._work())

    def stop(self) -> None:
        """Ends computing; the server has answered every request by now."""
        if self._task is not None:
            self._task.cancel()

    async def submit(self, job: Job) -> Answer:
        """The answer, or a 503 when too much is waiting already or it takes too long."""
        if self._images + job.images > self._limits.queue:
            raise HTTPException(
                503, "Too many images are waiting; try again in a moment.", {"Retry-After": "1"}
            )
        waiting: _Waiting[Job, Answer] = _Waiting(job, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._images += job.images
        self._arrived.set()
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await waiting.answer
        except TimeoutError:
            sentence = f"No answer within {self._limits.seconds:g} seconds; try again in a moment."
            raise HTTPException(503, sentence, {"Retry-After": "2"}) from None

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            if self._limits.wait and self._images < self._limits.images:
                await asyncio.sleep(self._limits.wait)
            batch = self._take()
            if batch:
                await self._compute(batch)

    def _take(self) -> list[_Waiting[Job, Answer]]:
        """The longest waiting that fit into a batch; those whose callers gave up are dropped."""
        batch: list[_Waiting[Job, Answer]] = []
        images = 0
        while self._waiting:
            first = self._waiting[0]
            gone = first.answer.done()
            if (
                not gone
                and batch
                and (not self._limits.wait or images + first.job.images > self._limits.images)
            ):
                break
            self._waiting.popleft()
            self._images -= first.job.images
            if not gone:
                batch.append(first)
                images += first.job.images
        if not self._waiting:
            self._arrived.clear()
        return batch

    async def _compute(self, batch: list[_Waiting[Job, Answer]]) -> None:
        loop = asyncio.get_running_loop()
        self.batches += 1
        self._began = time.monotonic()
        try:
            answers = await loop.run_in_executor(self._executor, self._run, [w.job for w in batch])
        except Exception as error:
            # A bug, since jobs are checked before they wait: each caller gets it, and its traceback is logged there.
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
            return
        finally:
            self._began = None
        for waiting, answer in zip(batch, answers, strict=True):
            if not waiting.answer.done():
                waiting.answer.set_result(answer)
