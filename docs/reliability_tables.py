"""The tables of docs/reliability.md, from what `make soak` has kept in results/reliability/."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMANDS = {"fuzz": "make fuzz"}
RECORDS = Path(__file__).resolve().parent.parent / "results" / "reliability"


def table(part: str, make: Callable[[dict[str, Any]], str]) -> str:
    """What `make` makes of a part's record, or that there is none."""
    path = RECORDS / f"{part}.json"
    return (
        make(json.loads(path.read_text()))
        if path.exists()
        else f"Not taken yet: `{COMMANDS.get(part, f'python -m soak {part}')}`."
    )


def taken(record: dict[str, Any]) -> str:
    """Where, when and how long."""
    load = f", load {record['load'][0]} at the end" if record["load"] else ""
    return (
        f"{record['machine']}{load}, {record['date'][:10]}, commit {record['commit'][:8]}, seed {record['seed']}; "
        f"{record['seconds'] / 60:.0f} minutes."
    )


def rows(heading: list[str], lines: list[list[object]], record: dict[str, Any]) -> str:
    head = ["| " + " | ".join(heading) + " |", "|---|" + "---:|" * (len(heading) - 1)]
    shown = [
        "| " + " | ".join(f"{c:,}" if isinstance(c, int) else str(c) for c in line) + " |" for line in lines
    ]
    return "\n".join([*head, *shown, "", taken(record)])


def crowd_table(record: dict[str, Any]) -> str:
    """One row for each scene: what honest clients saw, and the server's memory."""
    pictures, half, crowd = record["pictures"], record["half_open"], record["crowd"]
    titles = {
        f"{pictures['attackers']} clients at once send a {pictures['picture_bytes'] / 1000:.0f} KB picture of 4000x4000 "
        "pixels of 16 bits": pictures,
        f"{half['half_open_sockets']:,} sockets send half a header": half,
        f"{crowd['hostile_clients']} of {crowd['clients']} clients are hostile": crowd,
    }
    lines: list[list[object]] = [
        [
            title,
            scene["honest_requests"],
            scene["honest_unanswered"],
            f"{scene['honest_p50_ms']:.0f} ms",
            f"{scene['honest_p99_ms']:.0f} ms",
            f"{scene['memory_peak_mb']} MB" if "memory_peak_mb" in scene else "-",
        ]
        for title, scene in titles.items()
    ]
    heading = ["scene", "honest requests", "unanswered", "p50", "p99", "peak of the server's memory"]
    attackers = ", ".join(
        f"{status}: {count:,}" for status, count in pictures["answers_to_attackers"].items()
    )
    return (
        rows(heading, lines, record)
        + f" Before the first scene the server held {pictures['memory_before_mb']} MB; the attackers got {attackers}. "
        f"{half['half_open_closed']:,} of {half['half_open_sockets']:,} half-open sockets were closed, the last after "
        f"{half['half_open_longest_seconds']:.1f} s. A request for `Host: evil.example` got {record['other_host_status']}. "
        f"Afterwards the server was {'ready' if record['ready_afterwards'] else 'not ready'}, "
        f"with {record['tracebacks']} tracebacks in its log."
    )


def requests_table(record: dict[str, Any]) -> str:
    """How many requests got which status."""
    lines: list[list[object]] = [
        [{"0": "closed without an answer"}.get(status, status), count]
        for status, count in record["answers"].items()
    ]
    lines.append(["all", record["requests"]])
    return (
        rows(["answer", "requests"], lines, record)
        + f" {record['server_errors']} server errors, {record['tracebacks']} tracebacks; the longest took "
        f"{record['longest_seconds']:.1f} s, of which a request that lacks its end is given 10; "
        f"the server held {record['memory_afterwards_mb']} MB afterwards."
    )


def files_table(record: dict[str, Any]) -> str:
    """One row for each reader."""
    keys = ["files", "read", "refused", "tracebacks", "crashes", "hangs"]
    lines: list[list[object]] = [
        [name, *(reader[key] for key in keys), reader["memory_mb"]]
        for name, reader in record["readers"].items()
    ]
    lines.append(["all", *(record["sum"][key] for key in keys), record["most_memory_mb"]])
    return rows(["reader", *keys, "most memory, MB"], lines, record)


def fuzz_table(record: dict[str, Any]) -> str:
    """One row for each target."""
    keys = ["inputs", "tracebacks", "crashes", "hangs"]
    lines: list[list[object]] = [
        [name, *(target[key] for key in keys), target["branches"], target["corpus"]]
        for name, target in record["targets"].items()
    ]
    lines.append(["all", *(record["sum"][key] for key in keys), "", ""])
    return rows(["target", *keys, "branches reached", "inputs kept"], lines, record)


def work_table(record: dict[str, Any]) -> str:
    """One row for each kind of work."""
    keys = list(record["sum"])
    lines: list[list[object]] = [
        [name, *(work[key] for key in keys)] for name, work in record["work"].items()
    ]
    lines.append(["all", *(record["sum"][key] for key in keys)])
    return rows(["work", *(key.replace("_", " ") for key in keys)], lines, record)


TABLES = {
    "crowd": crowd_table,
    "requests": requests_table,
    "files": files_table,
    "fuzz": fuzz_table,
    "disks": work_table,
    "kills": work_table,
}
