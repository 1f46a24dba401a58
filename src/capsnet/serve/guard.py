"""What stands before every route: who may ask, how many at once, and the whole body, read here within its limits.

It is the outermost layer, so a body is counted whatever its type, path or method, and also when it is sent in chunks that don't
announce their sum. Answers leave through it too: in parts, each of which the client must have read before the next is sent.
"""

import asyncio
import logging
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capsnet.serve.access import Access
from capsnet.serve.answers import Answer, problem
from capsnet.serve.limits import Limits
from capsnet.serve.watch import Watch

log = logging.getLogger("capsnet.serve")

# The page needs nothing from elsewhere, and the browser is told to hold it to that.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# A client that writes its whole body before it reads would never see the answer if the connection were cut at the
# limit, so this many times the limit is read and thrown away first.
PATIENCE = 8
PART = 65_536
HEALTH = ("/healthz", "/readyz")
BUSY = "The server is busy; try again in a moment."


class Guard:
    """An ASGI layer that refuses by itself and otherwise hands on the complete body."""

    def __init__(self, app: ASGIApp, limits: Limits, access: Access, watch: Watch) -> None:
        self.app = app
        self.limits = limits
        self.access = access
        self.watch = watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = Exchange(self.limits, self.watch, scope, send)
        began = time.perf_counter()
        self.watch.requests += 1
        try:
            answer = self._refusal(scope)
            if answer is None:
                body = await self._read(scope, receive, exchange)
                if body is None:
                    return
                if isinstance(body, bytes):
                    await self.app(scope, replay(body, receive), exchange.send)
                    return
                answer = body
            await answer(scope, receive, exchange.send)
        except Exception:
            # A bug: its traceback belongs into the log, not into the answer.
            log.exception("%s %s failed", scope["method"], scope["path"])
            if exchange.status:
                raise
            await problem(500, "The server failed at this request; its log says why.")(
                scope, receive, exchange.send
            )
        finally:
            self.watch.requests -= 1
            self.watch.held -= exchange.held
            self.watch.seen(
                scope, exchange.status, exchange.received, exchange.sent, time.perf_counter() - began
            )

    def _refusal(self, scope: Scope) -> Answer | None:
        refused = self.access.refusal(scope)
        if refused is not None:
            return problem(*refused)
        if self.watch.requests > self.limits.requests and scope["path"] not in HEALTH:
            return problem(503, BUSY, {"Retry-After": "1"})
        return None

    async def _read(self, scope: Scope, receive: Receive, exchange: "Exchange") -> bytes | Answer | None:
        """The body, the answer that refuses it, or None when the client has gone."""
        limit = self.limits.body_bytes
        announced = Headers(scope=scope).get("content-length", "0")
        if announced.isdecimal() and int(announced) > limit:
            return self._too_large(close=int(announced) > PATIENCE * limit)
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self.limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    exchange.received += len(part)
                    more = message.get("more_body", False)
                    if exchange.received <= limit:
                        if not exchange.hold(len(part)):
                            return problem(503, BUSY, {"Retry-After": "1", "Connection": "close"})
                        parts.append(part)
                    elif not more or exchange.received > PATIENCE * limit:
                        return self._too_large(close=more)
                    if not more:
                        return b"".join(parts)
        except TimeoutError:
            if exchange.received > limit:
                return self._too_large(close=True)
            seconds = f"{self.limits.seconds:g}"
            return problem(
                408, f"The request did not arrive within {seconds} seconds.", {"Connection": "close"}
            )

    def _too_large(self, *, close: bool) -> Answer:
        sentence = f"A request has at most {self.limits.body_bytes:,} bytes."
        return problem(413, sentence, {"Connection": "close"} if close else None)


class Exchange:
    """One request and its answer: what they hold of the server's memory, and how far they are."""

    def __init__(self, limits: Limits, watch: Watch, scope: Scope, send: Send) -> None:
        self.limits = limits
        self.watch = watch
        self._connection = scope.get("state", {}).get("connection")
        self._send = send
        self.held = 0
        self.received = 0
        self.sent = 0
        self.status = 0

    def hold(self, size: int) -> bool:
        """Whether there is room for so many bytes more; they are held until the end of the request."""
        if self.watch.held + size > self.limits.memory:
            return False
        self.watch.held += size
        self.held += size
        return True

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            await self._send(message)
            return
        body = message.get("body", b"")
        self.sent += len(body)
        self.watch.held += len(body)
        self.held += len(body)
        if len(body) <= PART:
            await self._send(message)
            return
        more = message.get("more_body", False)
        try:
            async with asyncio.timeout(self.limits.seconds + len(body) / self.limits.slowest):
                for start in range(0, len(body), PART):
                    last = start + PART >= len(body)
                    part = body[start : start + PART]
                    await self._send(
                        {"type": "http.response.body", "body": part, "more_body": more or not last}
                    )
        except TimeoutError:
            if self._connection is None:
                raise
            self._connection.transport.abort()
            await asyncio.sleep(0)  # for the connection to know that it is lost


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body at once, then what the real one gives (the client's leaving)."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
