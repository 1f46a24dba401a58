"""Clients that mean harm beside clients that don't: what happens to the server's memory and to the others' answers.

Three scenes on one server: many requests at once of one small file with 16 million pixels of 16 bits; two thousand sockets that
send half a header; and 64 clients of which a tenth do something hostile, another thing each time.
"""

import asyncio
import io
import json
import random
import statistics
import struct
import time
import zlib
from collections import Counter
from typing import Any

import numpy as np
from PIL import Image

from capsnet.data import load_dataset
from capsnet.serve.run import allow_files
from soak.common import Server

ATTACKERS = 40
HONEST = 8
HALF_OPEN = 2000
CLIENTS = 64
HOSTILE = 6
HANG = 10.0


def png(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def post(body: bytes, kind: str) -> bytes:
    head = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def upload(content: bytes) -> bytes:
    part = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        + content
        + b"\r\n--b--\r\n"
    )
    return post(part, "multipart/form-data; boundary=b")


def digits() -> list[bytes]:
    """Test digits as honest clients send them: as pixels and as pictures, in turn."""
    images = load_dataset("mnist").test.images[:100, 0]
    pixels = [post(json.dumps({"images": [i.tolist()]}).encode(), "application/json") for i in images[:50]]
    return [
        request
        for pair in zip(pixels, (upload(png(i.numpy())) for i in images[50:]), strict=True)
        for request in pair
    ]


class Client:
    """One connection that asks and waits for the answer."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes) -> int:
        """The status of the answer; 0 when there was none in time."""
        for _ in range(2):  # a connection that the server has closed meanwhile is opened again
            try:
                async with asyncio.timeout(HANG):
                    if self.writer is None:
                        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
                    self.writer.write(request)
                    head = await self.reader.readuntil(b"\r\n\r\n")
                    size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                    await self.reader.readexactly(size)
                    if b"connection: close" in head.lower():
                        self.close()
                    return int(head.split()[1])
            except TimeoutError:
                self.close()
                return 0
            except (OSError, ValueError, asyncio.IncompleteReadError):
                self.close()
        return 0

    def close(self) -> None:
        if self.writer is not None:
            self.writer.transport.abort()
            self.writer = None


async def honest(
    port: int, number: int, end: float, asked: list[bytes], seen: list[tuple[int, float]]
) -> None:
    """A client as people are: one request after the other, with a pause; told to come back later, it does."""
    client = Client(port)
    while time.perf_counter() < end:
        began = time.perf_counter()
        status = await client.ask(asked[number % len(asked)])
        while status == 503 and time.perf_counter() - began < HANG:
            await asyncio.sleep(1)
            status = await client.ask(asked[number % len(asked)])
        seen.append((status, time.perf_counter() - began))
        number += 1
        await asyncio.sleep(0.05)
    client.close()


async def watch(server: Server, peaks: list[int]) -> None:
    while True:
        peaks.append(server.memory())
        await asyncio.sleep(0.05)


def honest_figures(seen: list[tuple[int, float]]) -> dict[str, Any]:
    times = sorted(t for _, t in seen)
    return {
        "honest_requests": len(seen),
        "honest_unanswered": sum(status != 200 for status, _ in seen),
        "honest_p50_ms": round(1000 * statistics.median(times), 1),
        "honest_p99_ms": round(1000 * times[int(0.99 * (len(times) - 1))], 1),
    }


async def picture_attack(server: Server, seconds: float, asked: list[bytes]) -> dict[str, Any]:
    picture = png(np.zeros((4000, 4000), dtype=np.uint16))
    request, end = upload(picture), time.perf_counter() + seconds
    statuses: Counter[int] = Counter()
    seen: list[tuple[int, float]] = []
    peaks = [server.memory()]

    async def attack() -> None:
        client = Client(server.port)
        while time.perf_counter() < end:
            statuses[await client.ask(request)] += 1
        client.close()

    watching = asyncio.create_task(watch(server, peaks))
    await asyncio.gather(
        *(attack() for _ in range(ATTACKERS)),
        *(honest(server.port, 7 * n, end, asked, seen) for n in range(HONEST)),
    )
    watching.cancel()
    return {
        "attackers": ATTACKERS,
        "picture_bytes": len(picture),
        "answers_to_attackers": {str(status): count for status, count in sorted(statuses.items())},
        "memory_before_mb": round(peaks[0] / 1e6),
        "memory_peak_mb": round(max(peaks) / 1e6),
        **honest_figures(seen),
    }


async def half_open(server: Server, asked: list[bytes]) -> dict[str, Any]:
    """Opens the sockets and says how long until the server has closed them all, asking honestly meanwhile."""
    seen: list[tuple[int, float]] = []
    began = time.perf_counter()
    asking = asyncio.create_task(honest(server.port, 0, began + 20, asked, seen))
    closed: list[float] = []

    async def half() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        opened = time.perf_counter()
        try:
            writer.write(b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Le")
            await asyncio.wait_for(reader.read(1), 60)
            closed.append(time.perf_counter() - opened)
        except TimeoutError:
            pass
        except OSError:
            closed.append(time.perf_counter() - opened)
        finally:
            writer.transport.abort()

    halves = [asyncio.create_task(half()) for _ in range(HALF_OPEN)]
    await asyncio.gather(*halves, return_exceptions=True)
    asking.cancel() if time.perf_counter() - began > 60 else await asking
    return {
        "half_open_sockets": HALF_OPEN,
        "half_open_closed": len(closed),
        "half_open_longest_seconds": round(max(closed, default=0.0), 1),
        **honest_figures(seen),
    }


async def other_name(server: Server) -> int:
    return await Client(server.port).ask(b"GET /v1/model HTTP/1.1\r\nHost: evil.example\r\n\r\n")


def bomb() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


async def hostile(port: int, seed: int, end: float, seen: Counter[str]) -> None:
    """Something else each time."""
    random_ = random.Random(seed)
    deep = upload(png(np.zeros((4000, 4000), dtype=np.uint16)))
    whole = post(b" " * 1_999_999, "application/json")
    requests = {
        "large picture": deep,
        "bomb": upload(bomb()),
        "full body": whole,
        "too large": b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000000\r\n\r\n",
        "nested": post(b'{"images": ' + b"[" * 500_000, "application/json"),
        "numbers": post(b'{"images": [[[' + b"1," * 900_000 + b"1]]]}", "application/json"),
        "parts": post(b"--b\r\n\r\n\r\n" * 60_000 + b"--b--\r\n", "multipart/form-data; boundary=b"),
        "no protocol": random_.randbytes(3000),
        "long header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000,
    }
    slow = {
        "half a header": b"POST /v1/predict HTTP/1.1\r\nHost: loc",
        "half a body": whole[:1_000_000],
        "unread answer": b"".join([b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"] * 200),
    }
    while time.perf_counter() < end:
        kind = random_.choice([*requests, *slow])
        if kind in requests:
            seen[f"{kind}: {await Client(port).ask(requests[kind])}"] += 1
            continue
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(slow[kind])
            await asyncio.sleep(random_.uniform(0, 3))
            writer.transport.abort()
            seen[kind] += 1
        except OSError:
            seen[f"{kind}: refused"] += 1


async def mixed_crowd(server: Server, seconds: float, seed: int, asked: list[bytes]) -> dict[str, Any]:
    end = time.perf_counter() + seconds
    seen: list[tuple[int, float]] = []
    kinds: Counter[str] = Counter()
    peaks: list[int] = []
    watching = asyncio.create_task(watch(server, peaks))
    await asyncio.gather(
        *(honest(server.port, 7 * n, end, asked, seen) for n in range(CLIENTS - HOSTILE)),
        *(hostile(server.port, seed + n, end, kinds) for n in range(HOSTILE)),
    )
    watching.cancel()
    return {
        "clients": CLIENTS,
        "hostile_clients": HOSTILE,
        "hostile_requests": dict(sorted(kinds.items())),
        "memory_peak_mb": round(max(peaks) / 1e6),
        **honest_figures(seen),
    }


def run(seconds: float, seed: int) -> dict[str, Any]:
    allow_files(HALF_OPEN + 500)
    asked = digits()
    with Server() as server:
        result = {
            "pictures": asyncio.run(picture_attack(server, min(60.0, 0.4 * seconds), asked)),
            "half_open": asyncio.run(half_open(server, asked)),
            "other_host_status": asyncio.run(other_name(server)),
            "crowd": asyncio.run(mixed_crowd(server, min(60.0, 0.4 * seconds), seed, asked)),
        }
        alive = asyncio.run(Client(server.port).ask(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    return {**result, "ready_afterwards": alive == 200, "tracebacks": server.errors.count("Traceback")}
