"""What the server does, for those who run it: counts for Prometheus, and a log with one JSON object per request."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from prometheus_client import (
    PROCESS_COLLECTOR,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.types import Scope

from capsnet.errors import CapsNetError

# Other paths are counted as one: strangers could otherwise make as many counters as they like.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10)
LONGEST = 200
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


class Watch:
    """Counts and logs requests.

    Attributes:
        requests: being read or answered at the moment.
        held: bytes of their bodies and answers.
    """

    def __init__(self, log: TextIO | None = None) -> None:
        self.requests = 0
        self.held = 0
        self._log = log
        self._paths: frozenset[str] = frozenset()
        self.registry = CollectorRegistry()
        self.registry.register(PROCESS_COLLECTOR)
        self._count = Counter(
            "capsnet_requests", "Requests answered.", ("method", "path", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "capsnet_request_seconds",
            "From the header to the end of the answer.",
            ("path",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.images = Counter("capsnet_images", "Images that the network was given.", registry=self.registry)
        self.gauge("capsnet_requests_in_progress", "Requests being read or answered.", lambda: self.requests)
        self.gauge("capsnet_held_bytes", "Bytes of bodies and answers held.", lambda: self.held)

    def gauge(self, name: str, help_: str, value: Callable[[], float]) -> None:
        """A number that is read when somebody asks."""
        Gauge(name, help_, registry=self.registry).set_function(value)

    def know(self, paths: frozenset[str]) -> None:
        """The paths that are counted by their names."""
        self._paths = paths

    def page(self) -> bytes:
        """For `/metrics`."""
        return generate_latest(self.registry)

    def seen(self, scope: Scope, status: int, received: int, sent: int, seconds: float) -> None:
        """A request has ended; status 0 is a client that left first."""
        path = scope["path"]
        method = scope["method"]
        label = path if path in self._paths else "/static" if path.startswith("/static/") else "other"
        self._count.labels(method if method in METHODS else "other", label, str(status)).inc()
        self._seconds.labels(label).observe(seconds)
        if self._log is None:
            return
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "client": (scope.get("client") or ("", 0))[0],
            "method": method[:LONGEST],
            "path": path[:LONGEST],
            "status": status,
            "seconds": round(seconds, 4),
            "bytes_in": received,
            "bytes_out": sent,
        }
        try:
            self._log.write(json.dumps(line) + "\n")
        except OSError as error:
            # A full disk must not end the service.
            self._log = None
            print(f"The access log has ended: {error.strerror}.", file=sys.stderr)


def open_log(path: str | None) -> TextIO | None:
    """The file to add lines to; "-" is standard error."""
    if path is None:
        return None
    if path == "-":
        return sys.stderr
    try:
        return open(Path(path), "a", buffering=1, encoding="utf-8")
    except OSError as error:
        raise CapsNetError(f"--access-log {path} cannot be written: {error.strerror}.") from error
