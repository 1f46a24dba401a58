"""From weights to a listening server, until it is told to stop."""

import errno
import socket
import webbrowser
from collections.abc import Callable
from functools import partial

import uvicorn
from starlette.applications import Starlette

from capsnet.errors import CapsNetError
from capsnet.serve.access import Access
from capsnet.serve.app import create_app
from capsnet.serve.connections import Connection
from capsnet.serve.engine import Engine
from capsnet.serve.limits import Limits
from capsnet.serve.network import Network, is_exported, open_network
from capsnet.serve.watch import Watch

PAIRS = "efficient_capsnet.multimnist"
# Connections that the system may hold ready between two looks at them, and files that a server needs besides them.
BACKLOG = 512
OTHER_FILES = 128


class Server(uvicorn.Server):
    """Tells when it accepts connections."""

    def __init__(self, app: Starlette, on_ready: Callable[[], None] = lambda: None) -> None:
        service = app.state.service
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(Connection, connections=service.connections),  # type: ignore[arg-type]
                ws="none",
                backlog=BACKLOG,
                log_level="error",  # a stranger's broken request is no news
                access_log=False,
                timeout_graceful_shutdown=int(service.limits.seconds) + 1,
                server_header=False,
            )
        )
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()


def run_server(
    weights: str,
    pairs: str | None,
    *,
    host: str,
    port: int,
    limits: Limits,
    access: Access,
    watch: Watch,
    on_ready: Callable[[str], None],
    threads: int | None = None,
    open_page: bool = False,
) -> None:
    """Serves until a signal; requests that have begun are answered first.

    Args:
        pairs: weights for two overlapping digits; beside weights for one digit the bundled ones when None.
        threads: of the CPU; all when None.
        on_ready: called with the address once connections are accepted.
    """
    # Before the weights are read: a taken port is the likelier mistake, and quick to tell.
    listener = bind(host, port)
    with listener:
        address = url(listener)
        network = open_network(weights, threads)
        if pairs is None and reads_one_digit(network) and not is_exported(weights):
            pairs = PAIRS
        engines = {"main": Engine(network)}
        if pairs is not None:
            engines["pairs"] = Engine(pairs, threads)

        def ready() -> None:
            on_ready(address)
            if open_page:
                webbrowser.open(address)

        allow_files(limits.connections + BACKLOG + OTHER_FILES)
        Server(create_app(engines, limits, access, watch), ready).run([listener])


def reads_one_digit(network: Network) -> bool:
    """Tell whether weights read one handwritten digit, so that two of them make sense too."""
    return network.preprocessing.kind == "digit" and network.class_names == tuple("0123456789")


def allow_files(count: int) -> None:
    """Raises how many files and connections this process may hold, where the system has such a limit and lets it."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < count:
            resource.setrlimit(resource.RLIMIT_NOFILE, (count if hard < 0 else min(count, hard), hard))
    except (ImportError, OSError, ValueError):
        pass


def bind(host: str, port: int) -> socket.socket:
    """A socket at the address, or a sentence about why there is none."""
    if not 0 <= port <= 65535:
        raise CapsNetError(f"--port is 0 (any free one) to 65535; got {port}.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise CapsNetError(f"'{host}' is no address of this machine; leave --host out.") from error
    listener = socket.socket(family, kind, protocol)
    # A port that a server has just left can be taken again at once.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise CapsNetError(
                f"Port {port} of {host} is in use by another program; choose another with --port."
            ) from error
        if error.errno == errno.EACCES:
            raise CapsNetError(
                f"Port {port} is not for ordinary users; choose one above 1023 with --port."
            ) from error
        raise CapsNetError(
            f"The server cannot listen at {host}, port {port}: {error.strerror or error}."
        ) from error
    return listener


def url(listener: socket.socket) -> str:
    """Where a browser finds the server."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
