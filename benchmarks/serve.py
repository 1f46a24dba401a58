"""How the server stands a crowd: 64 clients on loopback, each asking for one digit after the other.

Two servers, one that batches and one that does not, take turns within one run; throughput, latency and failures
are given for each, and the processor time that the server took per request, which other load on the machine hardly changes.
`--against COMMIT` adds the server of another commit of this checkout, which batches too. Clients are bare sockets in a
process of their own, so that they take as little as they can from the cores that the server has to share with them.
See README.md for how a number is taken.

    python benchmarks/serve.py [--clients 64] [--seconds 30] [--against COMMIT] [--json] [--record]
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from capsnet.data import load_dataset
from capsnet.files import write_json
from capsnet.machine import load_average
from capsnet.train.provenance import provenance

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "results" / "benchmarks" / "serve.json"
TURNS = 3  # of each server, in alternation: what else the machine does in a moment falls on both


def start(wait: float, source: Path | None = None) -> tuple[subprocess.Popen[str], int]:
    """A server of its own process, of this checkout or of another's `source`, and its port."""
    command = [sys.executable, "-m", "capsnet", "serve", "--port", "0", "--batch-wait", str(wait)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r":(\d+)/", line)
    if not found:
        raise SystemExit(f"The server did not start: {line}")
    return process, int(found.group(1))


@contextmanager
def checkout(commit: str | None) -> Iterator[Path | None]:
    """The sources of another commit, for a while."""
    if commit is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "-q", "--detach", folder, commit], check=True)
        try:
            yield Path(folder) / "src"
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", folder], check=True)


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """What a process has taken of the processors so far; nothing where the system does not tell it so."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def requests() -> list[bytes]:
    """Test digits as whole HTTP requests."""
    images = load_dataset("mnist").test.images[:100, 0].tolist()
    bodies = [json.dumps({"images": [image]}, separators=(",", ":")).encode() for image in images]
    head = "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
    return [head.format(len(body)).encode() + body for body in bodies]


async def client(
    port: int, number: int, asked: list[bytes], end: float, times: list[float], failed: list[str]
) -> None:
    """Asks, waits for the answer, asks again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < end:
        began = time.perf_counter()
        try:
            writer.write(asked[number % len(asked)])
            head = await reader.readuntil(b"\r\n\r\n")
            found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            body = await reader.readexactly(int(found.group(1)) if found else 0)
            if not head.startswith(b"HTTP/1.1 200") or b'"predictions"' not in body:
                failed.append(head.split(b"\r\n")[0].decode())
        except (OSError, asyncio.IncompleteReadError) as error:
            failed.append(repr(error))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        times.append(time.perf_counter() - began)
        number += 1
    writer.close()


async def crowd(
    port: int, clients: int, seconds: float, asked: list[bytes]
) -> tuple[list[float], list[str], float]:
    times: list[float] = []
    failed: list[str] = []
    began = time.perf_counter()
    end = began + seconds
    await asyncio.gather(*(client(port, 7 * n, asked, end, times, failed) for n in range(clients)))
    return times, failed, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--against", help="a commit, to measure its server in the same run")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", action="store_true", help=f"keep the result as {RECORD.name}")
    options = parser.parse_args()
    with checkout(options.against) as source:
        measure(options, source)


def measure(options: argparse.Namespace, source: Path | None) -> None:
    result: dict[str, object] = {
        **provenance(torch.device("cpu"), torch.get_num_threads()),
        "clients": options.clients,
        "seconds": options.seconds,
    }
    asked = requests()
    servers = {"batching": start(2), "each alone": start(0)}
    if source is not None:
        servers["before"] = start(2, source)
        result["before_commit"] = options.against
    sums: dict[str, tuple[list[float], list[str], list[float]]] = {name: ([], [], []) for name in servers}
    spent = dict.fromkeys(servers, 0.0)
    try:
        for _, port in servers.values():
            asyncio.run(crowd(port, options.clients, 1.5, asked))  # not counted
        for _ in range(TURNS):
            for name, (process, port) in servers.items():
                before = processor_seconds(process)
                times, failed, took = asyncio.run(
                    crowd(port, options.clients, options.seconds / TURNS, asked)
                )
                sums[name][0].extend(times)
                sums[name][1].extend(failed)
                sums[name][2].append(took)
                spent[name] += processor_seconds(process) - before
    finally:
        for process, _ in servers.values():
            process.terminate()
            process.wait()
    for name, (times, failed, took) in sums.items():
        cuts = statistics.quantiles(times, n=100)
        result[name] = {
            "requests": len(times),
            "failed": len(failed),
            "requests_per_second": round(len(times) / sum(took), 1),
            "p50_ms": round(1000 * cuts[49], 1),
            "p99_ms": round(1000 * cuts[98], 1),
            "processor_ms_per_request": round(1000 * spent[name] / len(times), 3),
        }
        print(f"{name:12s} {result[name]}", file=sys.stderr)
        for reason in sorted(set(failed))[:3]:
            print(f"  {reason}", file=sys.stderr)
    result["load_after"] = load_average()
    if options.json:
        print(json.dumps(result, indent=2))
    if options.record:
        write_json(RECORD, result)
    if any(failed for _, failed, _ in sums.values()):
        raise SystemExit("Some requests failed.")


if __name__ == "__main__":
    main()
