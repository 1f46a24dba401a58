"""Samples: a bounded pool of test images, of small data sets and of large ones, and never the data set itself."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from capsnet.data.base import Split
from capsnet.errors import CapsNetError
from capsnet.opening import OpenedWeights
from capsnet.serve import sample_worker, samples
from capsnet.serve.limits import Limits
from capsnet.serve.network import open_network
from capsnet.serve.samples import Pool, Samples, gather


@pytest.fixture(scope="module")
def views():
    return open_network("efficient_capsnet.toyviews")


@pytest.fixture
def digits():
    return open_network("efficient_capsnet.mnist")


def split(classes, count, *shape):
    random = np.random.default_rng(0)
    images = torch.from_numpy(random.integers(0, 256, (count, *shape), np.uint8))
    return Split(images, torch.arange(count) % classes)


def test_the_pool_has_the_size_that_the_weights_resize_to(views):
    test = split(5, 10, 2, 96, 96)
    pool = gather(test, views)
    assert pool.labels.tolist() == [*range(5), *range(5)]
    resized = F.interpolate(test.images.float(), (64, 64), mode="bilinear", antialias=True)
    for image in pool.images:
        assert image.shape == views.picture_shape
        assert (resized - torch.from_numpy(image)).abs().amax(dim=(1, 2, 3)).min() < 0.51


def test_the_pool_is_bounded_and_has_all_classes(views, monkeypatch):
    monkeypatch.setattr(samples, "POOL_BYTES", 13 * 2 * 64 * 64)
    pool = gather(split(5, 200, 2, 64, 64), views)
    assert len(pool.images) == 13
    assert np.bincount(pool.labels).tolist() == [3, 3, 3, 2, 2]
    monkeypatch.setattr(samples, "POOL_PER_CLASS", 1)
    assert len(gather(split(5, 200, 2, 64, 64), views).images) == 5


def test_a_draw_takes_every_class_in_turn():
    labels = np.array([2, 2, 2, 2, 0, 0, 1])
    pool = Pool(np.arange(7, dtype=np.uint8).reshape(7, 1, 1, 1), labels)
    assert pool.draw(7, seed=1).labels.tolist() == [0, 1, 2, 0, 2, 2, 2]
    assert pool.draw(4, seed=1).labels.tolist() == [0, 1, 2, 0]
    assert len({tuple(pool.draw(3, seed=seed).images.ravel()) for seed in range(50)}) == 8
    drawn = pool.draw(7, seed=3)
    assert all(
        labels[image] == label for image, label in zip(drawn.images.ravel(), drawn.labels, strict=True)
    )


def test_the_server_does_not_keep_the_data_set(digits):
    first = asyncio.run(Samples(digits, Limits()).draw(10, seed=0))
    assert first is not None
    assert [name for name, _ in first] == list("0123456789")
    assert "dataset" not in vars(digits.opened)


def test_a_large_data_set_is_read_by_another_process(digits, monkeypatch):
    monkeypatch.setattr(samples, "SMALL_BYTES", 0)
    several = Samples(digits, Limits())

    async def at_once():
        return await asyncio.gather(*(several.draw(10, seed=seed) for seed in (0, 0, 1)))

    first, again, other = asyncio.run(at_once())
    assert "dataset" not in vars(digits.opened)
    assert all((a[1] == b[1]).all() for a, b in zip(first, again, strict=True))
    assert any((a[1] != b[1]).any() for a, b in zip(first, other, strict=True))
    here = gather(open_network("efficient_capsnet.mnist").opened.dataset.test, digits)
    assert (several._pool.images == here.images).all()


def test_a_large_data_set_that_takes_too_long_has_no_samples(digits, monkeypatch, caplog):
    monkeypatch.setattr(samples, "SMALL_BYTES", 0)
    slow = Samples(digits, replace(Limits(), sample_seconds=0.01))
    assert slow.here
    assert asyncio.run(slow.draw(1, seed=0)) is None
    assert not slow.here
    assert "more than 0.01 s" in caplog.text


def test_only_so_many_wait_while_the_data_set_is_read(serve, trained, monkeypatch):
    monkeypatch.setattr(samples, "SMALL_BYTES", 0)
    monkeypatch.setattr(samples, "WORKER", ("-c", "import time; time.sleep(60)"))
    limits = replace(Limits(), sample_seconds=1.0, samples_queue=2)
    with serve({"main": trained}, limits) as server, ThreadPoolExecutor(5) as pool:
        answers = [pool.submit(httpx.get, f"{server.url}v1/samples", trust_env=False) for _ in range(5)]
        told = sorted((a.result().status_code, a.result().headers.get("retry-after")) for a in answers)
        assert told == [(404, None), (404, None), (503, "5"), (503, "5"), (503, "5")]


def test_what_the_other_process_says_is_in_the_log(digits, monkeypatch, caplog):
    monkeypatch.setattr(samples, "SMALL_BYTES", 0)
    monkeypatch.setattr(samples, "WORKER", ("-c", "import sys; sys.exit('too large')"))
    assert asyncio.run(Samples(digits, Limits()).draw(1, seed=0)) is None
    assert "There are no samples: too large" in caplog.text


def test_the_other_process_refuses_in_a_sentence_what_takes_too_much_memory(digits, monkeypatch):
    def full(self):
        raise MemoryError

    monkeypatch.setattr(sample_worker, "limit_memory", lambda more: None)
    monkeypatch.setattr(sample_worker.os, "nice", lambda more: None)
    monkeypatch.setattr(OpenedWeights, "dataset", property(full))
    with pytest.raises(SystemExit, match="could not be read within 1,000 bytes"):
        sample_worker.main(digits.weights, 1000)


def test_data_that_no_longer_fit_have_no_samples(digits, monkeypatch):
    def changed(self):
        raise CapsNetError("The classes have changed.")

    monkeypatch.setattr(OpenedWeights, "dataset", property(changed))
    assert asyncio.run(Samples(digits, Limits()).draw(1, seed=0)) is None
