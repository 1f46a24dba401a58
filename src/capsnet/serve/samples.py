"""Test images to begin with: what the playground offers beside one's own pictures.

The server keeps a pool of them, at most `POOL_BYTES`, and never a data set. A large data set is read by another process
(`sample_worker`), which may take no more than `Limits.sample_bytes` and ends when it has handed over the pool.
"""

import asyncio
import contextlib
import io
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from capsnet.data.preprocessing_numpy import resampling
from capsnet.errors import CapsNetError
from capsnet.serve.limits import Limits
from capsnet.serve.network import Network

if TYPE_CHECKING:
    from capsnet.data.base import Split
    from capsnet.data.registry import DataSetInfo
    from capsnet.opening import OpenedWeights

log = logging.getLogger("capsnet.serve")

POOL_BYTES = 8_000_000
POOL_PER_CLASS = 100
# Data sets of at most so many bytes are read by the server itself: that takes less time than starting a process.
SMALL_BYTES = 64_000_000
SEED = 0
WORKER = ("-m", "capsnet.serve.sample_worker")


class Pool(NamedTuple):
    """Some test images of every class, as the page takes them."""

    images: UInt8[np.ndarray, "n c h w"]
    labels: Int[np.ndarray, "n"]

    def draw(self, count: int, seed: int) -> "Pool":
        """Return a random image of each class in turn, `count` in all or as many as there are."""
        order = np.random.default_rng(seed).permutation(len(self.labels))
        return self._rows(in_turn(self.labels[order], order)[:count])

    def _rows(self, rows: Int[np.ndarray, "m"]) -> "Pool":
        return Pool(self.images[rows], self.labels[rows])


def in_turn(labels: Int[np.ndarray, "n"], rows: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """Sort rows so that the first of every class come first, then the second of every class, and so on."""
    rounds = np.zeros(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rounds[labels == label] = np.arange((labels == label).sum())
    return rows[np.lexsort((labels, rounds))]


def gather(test: "Split", network: Network) -> Pool:
    """Choose the pool among the test images."""
    size = prod(network.picture_shape)
    labels = test.labels.numpy()
    order = np.random.default_rng(SEED).permutation(len(labels))
    most = min(POOL_PER_CLASS * network.num_classes, POOL_BYTES // size)
    rows = in_turn(labels[order], order)[: max(1, most)]
    images = test.images[rows].numpy()
    if network.classes_per_image == 1:  # the page lays two single digits over each other by itself
        images = resized(images, network.picture_shape[1:])
    return Pool(images, labels[rows])


class Samples:
    """The test images of the weights' own data set, read when first asked for.

    Only named data sets that are on this machine: nothing is downloaded, and a user's own pictures are not published.
    Exported files know of no data set. `waiting` counts the requests that wait, at first for the data set to be read.
    """

    def __init__(self, network: Network, limits: Limits) -> None:
        self._network, self._limits = network, limits
        self._opened: OpenedWeights | None = getattr(network, "opened", None)
        self._info = public_data(self._opened)
        self._pool: Pool | None = None
        self._reading = asyncio.Lock()
        self.waiting = 0

    @property
    def here(self) -> bool:
        """Whether there are samples, as far as is known."""
        return self._info is not None

    async def draw(self, count: int, seed: int) -> list[tuple[str, np.ndarray]] | None:
        """Return classes and images of as many classes as there are, in their order; None when there is no data set."""
        self.waiting += 1
        try:
            return await self._draw(count, seed)
        finally:
            self.waiting -= 1

    async def _draw(self, count: int, seed: int) -> list[tuple[str, np.ndarray]] | None:
        async with self._reading:
            if self._info is not None and self._pool is None:
                small = stored_bytes(self._info) <= SMALL_BYTES
                self._pool = await (asyncio.to_thread(self._read) if small else self._ask())
                if self._pool is None:
                    self._info = None
        return None if self._pool is None else named(self._pool.draw(count, seed), self._network)

    def _read(self) -> Pool | None:
        assert self._opened is not None
        try:
            pool = gather(self._opened.dataset.test, self._network)
        except CapsNetError as error:  # the data set has changed, and no longer fits
            log.warning("There are no samples: %s", error)
            return None
        del self._opened.dataset
        return pool

    async def _ask(self) -> Pool | None:
        """The pool that a process of its own chooses."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *WORKER, self._network.weights, str(self._limits.sample_bytes)),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._limits.sample_seconds):
                content, remarks = await process.communicate()
        except TimeoutError:
            log.warning(
                "There are no samples: reading them took more than %g s.", self._limits.sample_seconds
            )
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        if process.returncode != 0:
            log.warning("There are no samples: %s", remarks.decode(errors="replace").strip()[-500:])
            return None
        return unpack(content)


def named(pool: Pool, network: Network) -> list[tuple[str, np.ndarray]]:
    """Return the images with the names of their classes."""
    return [(network.class_names[k], image) for image, k in zip(*pool, strict=True)]


def pack(pool: Pool) -> bytes:
    file = io.BytesIO()
    np.savez(file, images=pool.images, labels=pool.labels)
    return file.getvalue()


def unpack(content: bytes) -> Pool:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return Pool(arrays["images"], arrays["labels"])


def stored_bytes(info: "DataSetInfo") -> int:
    """About how much memory the data set takes."""
    return (info.train_images + info.test_images) * prod(info.image_shape)


def public_data(opened: "OpenedWeights | None") -> "DataSetInfo | None":
    """Return what is known of the weights' data set, if it is a named one and is here."""
    told = opened.trained_on if opened is not None else None
    if opened is None or told is None:
        return None
    from capsnet.data import list_datasets

    known = {info.name: info for info in list_datasets()}
    return known[told.dataset] if told.dataset in known and opened.data_is_here else None


def resized(images: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Bring stored pictures to the size that the pre-processing brings them to."""
    if images.shape[-2:] == size:
        return images
    rows, columns = (resampling(n, m) for n, m in zip(images.shape[-2:], size, strict=True))
    return np.clip(np.rint(rows @ images.astype(np.float32) @ columns.T), 0, 255).astype(np.uint8)
