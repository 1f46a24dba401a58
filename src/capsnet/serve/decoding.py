"""Pictures decoded in two processes beside the server: small ones in one, so that they never wait for the large ones in
the other.

Each decodes one request's pictures at a time, so the pixels in flight are bounded whatever the crowd.
"""

import asyncio
import contextlib
import json
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException

from capsnet.data.preprocessing import Preprocessing
from capsnet.serve.decode_worker import LENGTHS, pack
from capsnet.serve.limits import Limits

log = logging.getLogger("capsnet.serve")


class Lane:
    """A process that decodes, and those who wait for it in their order."""

    def __init__(self, limits: Limits, *, most_waiting: int, niceness: int) -> None:
        self._limits = limits
        self._most_waiting = most_waiting
        self._niceness = niceness
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self.waiting = 0
        self.restarts = -1

    async def start(self) -> Process:
        if self._process is None:
            command = [sys.executable, "-m", "capsnet.serve.decode_worker"]
            self._process = await asyncio.create_subprocess_exec(
                *command,
                str(self._limits.decode_bytes),
                str(self._niceness),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,  # decoders remark on damaged files
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,  # Ctrl-C is for the server, which ends this process when it has answered
            )
            self.restarts += 1
        return self._process

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def ask(self, message: bytes) -> tuple[dict[str, Any], bytes]:
        """The process's answer; 503 when too many wait or the turn does not come."""
        if self.waiting >= self._most_waiting:
            raise HTTPException(
                503, "Too many pictures are waiting; try again in a moment.", {"Retry-After": "2"}
            )
        self.waiting += 1
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._turn.acquire()
        except TimeoutError:
            raise HTTPException(
                503, "Too many pictures are waiting; try again in a moment.", {"Retry-After": "5"}
            ) from None
        finally:
            self.waiting -= 1
        try:
            return await self._exchange(message)
        finally:
            self._turn.release()

    async def _exchange(self, message: bytes) -> tuple[dict[str, Any], bytes]:
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        answered = False
        try:
            async with asyncio.timeout(self._limits.decode_seconds):
                process.stdin.write(message)
                await process.stdin.drain()
                header_size, content_size = LENGTHS.unpack(await process.stdout.readexactly(LENGTHS.size))
                header = json.loads(await process.stdout.readexactly(header_size))
                content = await process.stdout.readexactly(content_size)
            answered = True
            return header, content
        except TimeoutError:
            seconds = f"{self._limits.decode_seconds:g}"
            raise HTTPException(422, f"The picture could not be decoded within {seconds} seconds.") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise HTTPException(422, "The picture is damaged: it cannot be decoded.") from None
        finally:
            if not answered:
                await self.stop()


class Decoding:
    """Picture files in, pictures as the data set stores them out."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.lanes = {
            "small": Lane(limits, most_waiting=limits.queue, niceness=0),
            # Less urgent than all that honest clients usually ask.
            "large": Lane(limits, most_waiting=limits.large_queue, niceness=10),
        }

    async def start(self) -> None:
        for lane in self.lanes.values():
            await lane.start()

    async def stop(self) -> None:
        for lane in self.lanes.values():
            await lane.stop()

    async def decode(
        self,
        files: Sequence[tuple[str, bytes]],
        preprocessing: Preprocessing,
        image_shape: tuple[int, int, int],
    ) -> np.ndarray:
        """The pictures (N, C, H, W), uint8."""
        content = b"".join(content for _, content in files)
        header: dict[str, Any] = {
            "files": [(name, len(content)) for name, content in files],
            "preprocessing": preprocessing.to_dict(),
            "image_shape": image_shape,
            "pixels": self._limits.pixels,
            "small_pixels": self._limits.small_pixels,
            "decode_bytes": self._limits.decode_bytes,
        }
        answer, pixels = await self.lanes["small"].ask(pack({**header, "small": True}, content))
        if "large" in answer:
            answer, pixels = await self.lanes["large"].ask(pack({**header, "small": False}, content))
        if "refused" in answer:
            raise HTTPException(422, answer["refused"])
        if "bug" in answer:
            raise RuntimeError(f"decoding failed:\n{answer['bug']}")
        return np.frombuffer(pixels, dtype=np.uint8).reshape(answer["shape"]).copy()
