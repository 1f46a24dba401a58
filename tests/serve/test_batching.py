"""Requests that come together share a forward pass, and each gets its own answer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from capsnet.serve.batching import Batcher, Sized
from capsnet.serve.engine import Question
from capsnet.serve.limits import Limits


@dataclass
class Job(Sized):
    images: int
    number: int = 0


async def answers(jobs, limits):
    """Each job's answer, and the sizes of the batches that were computed."""
    sizes = []

    def run(batch):
        sizes.append([job.images for job in batch])
        return [job.number for job in batch]

    with ThreadPoolExecutor(1) as executor:
        batcher = Batcher(run, limits, executor)
        batcher.start()
        got = await asyncio.gather(*(batcher.submit(job) for job in jobs))
        batcher.stop()
    return got, sizes


@given(st.lists(st.integers(1, 64), min_size=1, max_size=30))
def test_each_gets_its_own_answer_and_no_batch_is_too_large(counts):
    jobs = [Job(n, number) for number, n in enumerate(counts)]
    got, sizes = asyncio.run(answers(jobs, Limits(queue=10**6, wait=0.001)))
    assert got == list(range(len(jobs)))
    assert all(sum(batch) <= 64 for batch in sizes)
    assert [n for batch in sizes for n in batch] == counts, "first come, first served"


def test_small_requests_that_come_together_are_one_batch():
    _, sizes = asyncio.run(answers([Job(1) for _ in range(20)], Limits()))
    assert sizes == [[1] * 20]


def test_without_a_wait_each_request_is_computed_alone():
    _, sizes = asyncio.run(answers([Job(1) for _ in range(20)], Limits(wait=0)))
    assert sizes == [[1]] * 20


def test_a_caller_who_gives_up_is_not_computed_for():
    async def scenario():
        seen = []
        with ThreadPoolExecutor(1) as executor:
            batcher = Batcher(
                lambda jobs: seen.extend(j.number for j in jobs) or jobs, Limits(wait=0.02), executor
            )
            batcher.start()
            leaving = asyncio.create_task(batcher.submit(Job(1, 1)))
            staying = asyncio.create_task(batcher.submit(Job(1, 2)))
            await asyncio.sleep(0)
            leaving.cancel()
            await staying
            assert batcher._images == 0
            batcher.stop()
        return seen

    assert asyncio.run(scenario()) == [2]


def test_a_failed_batch_does_not_end_the_next():
    async def scenario():
        def run(jobs):
            if jobs[0].number < 0:
                raise ZeroDivisionError
            return [job.number for job in jobs]

        with ThreadPoolExecutor(1) as executor:
            batcher = Batcher(run, Limits(), executor)
            batcher.start()
            with pytest.raises(ZeroDivisionError):
                await batcher.submit(Job(1, -1))
            assert await batcher.submit(Job(1, 3)) == 3
            batcher.stop()

    asyncio.run(scenario())


def test_an_answer_does_not_depend_on_its_batch(trained):
    pictures = np.random.default_rng(0).integers(0, 256, (6, 1, 28, 28), dtype=np.uint8)
    everything = frozenset({"poses", "coupling", "reconstructions", "input"})
    questions = [
        Question(pictures[:1], everything, 2),
        Question(pictures[1:4]),
        Question(pictures[4:], everything),
    ]
    together = msgspec.to_builtins(trained.predict(questions))
    for question, answer in zip(questions, together, strict=True):
        (alone,) = msgspec.to_builtins(trained.predict([question]))
        assert len(alone) == len(answer) == question.images
        for one, other in zip(alone, answer, strict=True):
            assert one.keys() == other.keys()
            assert one["scores"] == pytest.approx(other["scores"], abs=1e-5)
            if "poses" in one:
                torch.testing.assert_close(
                    torch.tensor(one["poses"]), torch.tensor(other["poses"]), atol=1e-5, rtol=0
                )


def test_concurrent_requests_reach_the_network_together(server):
    batcher = server.service.predictions["main"]
    before = batcher.batches
    body = {"images": torch.zeros(1, 28, 28).tolist()}
    with server.client() as client, ThreadPoolExecutor(16) as threads:
        done = list(threads.map(lambda _: client.post("/v1/predict", json=body).status_code, range(160)))
    assert done == [200] * 160
    assert batcher.batches - before < 130
