"""A target for `soak.fuzz`: bytes as a stranger sends them, through HTTP's parsing, the guard and the service, in one process.

There is no socket, decoding is replaced by blank pictures (pictures have targets of their own), and a client that has not
sent all of its request leaves.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
import uvicorn
from uvicorn.server import ServerState

from capsnet.serve.app import create_app
from capsnet.serve.connections import Connection
from capsnet.serve.engine import Engine
from capsnet.serve.limits import Limits
from soak.requests import HEADERS, good, spoilt

NO_WAIT = Limits(wait=0.0)


class Wire(asyncio.Transport):
    """Where the server's answer goes."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 8000)}.get(name, default)

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class ServerError(Exception):
    """An answer that no request may get."""


class Front:
    """A server without sockets."""

    def __init__(self) -> None:
        app = create_app({"main": Engine("efficient_capsnet.mnist", threads=1)}, NO_WAIT)
        service = app.state.service
        service.decoding.decode = self._decoded
        for lane in service.decoding.lanes.values():
            lane.start = _nothing
        self.loop = asyncio.new_event_loop()
        self._life = service.lifespan(app)
        self.loop.run_until_complete(self._life.__aenter__())
        config = uvicorn.Config(
            app, lifespan="off", log_level="critical", access_log=False, server_header=False
        )
        config.load()
        logging.disable(logging.CRITICAL)
        self._state = ServerState()
        self._connect = partial(
            Connection, config, self._state, {}, self.loop, connections=service.connections
        )

    async def _decoded(
        self, files: Sequence[Any], preprocessing: Any, image_shape: tuple[int, int, int]
    ) -> np.ndarray:
        return np.zeros((len(files), *image_shape), dtype=np.uint8)

    def send(self, content: bytes) -> bytes:
        """Send bytes and leave; return what the server had answered."""
        return self.loop.run_until_complete(self._send(content))

    async def _send(self, content: bytes) -> bytes:
        wire, connection = Wire(), self._connect()
        connection.connection_made(wire)
        if (
            content and not wire.closed
        ):  # h11 takes nothing for the end of the connection, and asyncio never hands it on
            connection.data_received(content)
        while self._state.tasks:
            if connection.cycle is None or connection.cycle.more_body or connection.cycle.response_complete:
                break
            await asyncio.wait(set(self._state.tasks), timeout=0.05)
        connection.connection_lost(None)
        if self._state.tasks:
            await asyncio.wait(set(self._state.tasks))
        answered = bytes(wire.sent)
        if answered.startswith((b"HTTP/1.1 500", b"HTTP/1.1 502")):
            raise ServerError(answered[:300].decode(errors="replace"))
        return answered


async def _nothing() -> None:
    return None


def make_target() -> tuple[list[bytes], Callable[[bytes, Random], bytes], Callable[[bytes], object]]:
    requests = [*good()]
    head = b"%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
    seeds = [head % (method, path, kind.encode(), len(body), body) for method, path, kind, body in requests]
    plain = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n"

    def spoil(content: bytes, random: Random) -> bytes:
        return spoilt(requests, random)

    return [*seeds, *(plain % header for header in HEADERS)], spoil, Front().send
