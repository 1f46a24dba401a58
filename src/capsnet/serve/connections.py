"""Connections that are open: how many at once, and how long one may dawdle before its request's header is complete.

uvicorn bounds neither; the body of a request and the reading of its answer are timed in `guard`.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from capsnet.serve.limits import Limits

FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: 58\r\n\r\n"
    b'{"error":"The server is busy; try again in a moment now."}'
)
SWEEP_SECONDS = 1.0


class Connections:
    """All open connections of a server."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: set[Connection] = set()
        self._task: asyncio.Task[None] | None = None
        self.overdue = 0

    def __len__(self) -> int:
        return len(self._open)

    def start(self) -> None:
        self._task = asyncio.create_task(self._sweep())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def admit(self, connection: "Connection") -> None:
        """Makes room by closing the connection that has been without a request for longest; refuses when all have one."""
        if len(self._open) >= self._limits.connections:
            idle = min((c for c in self._open if not c.busy), key=lambda c: c.since, default=None)
            if idle is None:
                connection.transport.write(FULL)
                connection.transport.close()
            else:
                self.cut(idle)
        self._open.add(connection)

    def cut(self, connection: "Connection") -> None:
        self._open.discard(connection)
        connection.transport.abort()

    def leave(self, connection: "Connection") -> None:
        self._open.discard(connection)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, self._limits.header_seconds / 4))
            latest = asyncio.get_running_loop().time() - self._limits.header_seconds
            for connection in [c for c in self._open if not c.busy and c.since < latest]:
                self.overdue += 1
                self.cut(connection)


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 connection, known to `Connections` from its first moment to its last."""

    def __init__(self, *args: Any, connections: Connections, **named: Any) -> None:
        super().__init__(*args, **named)
        self.app_state = {**self.app_state, "connection": self}  # so that `guard` can end it
        self._registry = connections
        self.since = self.loop.time()

    @property
    def busy(self) -> bool:
        """Whether a request's header is complete and its answer is not."""
        return self.cycle is not None and not self.cycle.response_complete and not self.transport.is_closing()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._registry.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._registry.leave(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()
