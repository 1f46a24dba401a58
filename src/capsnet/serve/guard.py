"""What stands before every route: the whole body is read here, within its limits, and handed on in one piece.

It is the outermost layer, so a body is counted whatever its type, path or method, and also when it is sent in chunks
that don't announce their sum.
"""

import asyncio
import logging
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capsnet.serve.limits import Limits

log = logging.getLogger("capsnet.serve")

# The page needs nothing from elsewhere, and the browser is told to hold it to that.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# A client that writes its whole body before it reads would never see the answer if the connection were cut at the
# limit, so this many times the limit is read and thrown away first.
PATIENCE = 8


class Guard:
    """An ASGI layer that answers 413, 408 or 503 itself and otherwise hands on the complete body."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self.requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if self.requests >= self.limits.requests:
            answer = problem(503, "The server is busy; try again in a moment.", {"Retry-After": "1"})
            await answer(scope, receive, send_with_headers)
            return
        self.requests += 1
        try:
            body = await self._read(scope, receive)
            if body is None:
                return
            if isinstance(body, JSONResponse):
                await body(scope, receive, send_with_headers)
                return
            await self.app(scope, replay(body, receive), send_with_headers)
        except Exception:
            # A bug: its traceback belongs into the log, not into the answer.
            log.exception("%s %s failed", scope["method"], scope["path"])
            if begun:
                raise
            answer = problem(500, "The server failed at this request; its log says why.")
            await answer(scope, receive, send_with_headers)
        finally:
            self.requests -= 1

    async def _read(self, scope: Scope, receive: Receive) -> bytes | JSONResponse | None:
        """The body, the answer that refuses it, or None when the client has gone."""
        limit = self.limits.body_bytes
        announced = Headers(scope=scope).get("content-length", "0")
        if announced.isdecimal() and int(announced) > limit:
            return self._too_large(close=int(announced) > PATIENCE * limit)
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    size += len(part)
                    more = message.get("more_body", False)
                    if size <= limit:
                        parts.append(part)
                    elif not more or size > PATIENCE * limit:
                        return self._too_large(close=more)
                    if not more:
                        return b"".join(parts)
        except TimeoutError:
            if size > limit:
                return self._too_large(close=True)
            seconds = f"{self.limits.seconds:g}"
            return problem(
                408, f"The request did not arrive within {seconds} seconds.", {"Connection": "close"}
            )

    def _too_large(self, *, close: bool) -> JSONResponse:
        sentence = f"A request has at most {self.limits.body_bytes:,} bytes."
        return problem(413, sentence, {"Connection": "close"} if close else None)


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


def problem(status: int, sentence: str, headers: Any = None) -> JSONResponse:
    """The one form of every refusal."""
    return JSONResponse({"error": sentence}, status, headers)
