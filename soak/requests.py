"""Requests made from good ones by seeded changes of bodies, queries, headers and raw bytes: each gets an answer, none a 500."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from soak import mutate
from soak.common import Server
from soak.crowd import Client, digits

Request = tuple[bytes, bytes, str, bytes]
HEADERS = (b"Content-Type: text/plain", b"Content-Encoding: gzip", b"Transfer-Encoding: chunked", b"Expect: 100-continue",
           b"Host: evil.example", b"Content-Length: 5", b"Authorization: Bearer x", b"Accept: */*;q=nan", b"Upgrade: websocket",
           b"X-Forwarded-For: 1.2.3.4", b"Range: bytes=0-1")  # fmt: skip
QUERIES = ("top", "include", "model", "count", "seed", "x")
WORDS = (
    "1",
    "0",
    "-1",
    "10",
    "99999999999999999999",
    "1e5",
    "nan",
    "",
    "poses",
    "poses,coupling,input",
    "pairs",
    "main",
    "%00",
    "é",
)


def good() -> list[Request]:
    """Method, path, type and body of requests that are answered with 200."""
    pose = {"poses": [[0.1] * 16] * 2, "classes": [0, "2"]}
    whole = {"poses": [[[0.1] * 16] * 10]}
    blank = {"images": [[[0] * 28] * 28]}
    form = digits()[1].partition(b"\r\n\r\n")[2]
    return [
        (b"POST", b"/v1/predict", "application/json", json.dumps(blank).encode()),
        (b"POST", b"/v1/predict", "multipart/form-data; boundary=b", form),
        (b"POST", b"/v1/reconstruct", "application/json", json.dumps(pose).encode()),
        (b"POST", b"/v1/reconstruct", "application/json", json.dumps(whole).encode()),
        *(
            (b"GET", path, "text/plain", b"")
            for path in (b"/v1/model", b"/v1/samples", b"/openapi.json", b"/metrics", b"/")
        ),
    ]


def spoilt(requests: Sequence[Request], random: Random) -> bytes:
    method, path, kind, body = random.choice(requests)
    if random.random() < 0.5:
        pairs = [f"{random.choice(QUERIES)}={random.choice(WORDS)}" for _ in range(random.randrange(1, 4))]
        path += b"?" + "&".join(pairs).encode("ascii", "xmlcharrefreplace")
    if random.random() < 0.8 and body:
        structured = body.startswith(b"{") and random.random() < 0.6
        body = (
            mutate.mutate_json(body.decode(), random).encode()
            if structured
            else mutate.mutate_bytes(body, random)
        )
    if random.random() < 0.1:
        method, path = (
            random.choice((b"PUT", b"GET", b"HEAD", b"POST", b"BREW")),
            mutate.mutate_bytes(path, random),
        )
    head = [method + b" " + path + b" HTTP/1.1", b"Host: localhost", b"Content-Type: " + kind.encode()]
    if random.random() < 0.1:
        head.append(random.choice(HEADERS))
    request = b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", b""]) + body
    return mutate.mutate_bytes(request, random) if random.random() < 0.05 else request


async def ask(
    port: int,
    requests: Sequence[Request],
    seed: int,
    end: float,
    statuses: Counter[int],
    times: list[float],
    failures: list[str],
) -> None:
    """Each request on a connection of its own, so that what is wrong with one does not reach the next."""
    random = Random(seed)
    while time.monotonic() < end:
        request = spoilt(requests, random)
        began = time.monotonic()
        client = OneAnswer(port)
        status = await client.ask(request)
        client.close()
        statuses[status] += 1
        times.append(time.monotonic() - began)
        if status >= 500 and status != 503:
            failures.append(f"{status}: {request[:200]!r}")


class OneAnswer(Client):
    """Says that it sends no more, so that a request that lacks its end is not waited for."""

    async def ask(self, request: bytes) -> int:
        try:
            async with asyncio.timeout(20):
                reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
                self.writer.write(request)
                head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 12)
                return int(head.split()[1])
        except (
            OSError,
            ValueError,
            IndexError,
            TimeoutError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):
            return 0


def run(seconds: float, seed: int) -> dict[str, Any]:
    statuses: Counter[int] = Counter()
    times: list[float] = []
    failures: list[str] = []
    requests = good()
    with Server() as server:

        async def all_of_them() -> int:
            end = time.monotonic() + seconds
            await asyncio.gather(
                *(ask(server.port, requests, seed + n, end, statuses, times, failures) for n in range(24))
            )
            return await Client(server.port).ask(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")

        ready = asyncio.run(all_of_them())
        peak = server.memory()
    return {
        "requests": sum(statuses.values()),
        "answers": {str(status): count for status, count in sorted(statuses.items())},
        "server_errors": len(failures),
        "failures": failures[:20],
        "longest_seconds": round(max(times), 1),
        "memory_afterwards_mb": round(peak / 1e6),
        "ready_afterwards": ready == 200,
        "tracebacks": server.errors.count("Traceback"),
    }
