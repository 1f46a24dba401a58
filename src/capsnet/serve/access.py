"""Who may ask: the names that the server goes by, and the token, if it has one.

A page elsewhere could have its own name point here (DNS rebinding), and a browser would then let it read the answers; a
server that answers only to its own names is safe from that.
"""

import hmac
import socket
from dataclasses import dataclass, field
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import Scope

from capsnet.errors import CapsNetError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
LEAST_TOKEN = 16
# The page holds nothing and must be loaded before it can send a token; what balances servers asks for their health.
OPEN_PATHS = ("/", "/healthz", "/readyz")


@dataclass(frozen=True)
class Access:
    """The hosts that are answered besides loopback and the address that a request came in at; "*" is any."""

    hosts: frozenset[str] = frozenset()
    token: str | None = field(default=None, repr=False)

    def refusal(self, scope: Scope) -> tuple[int, str, dict[str, str]] | None:
        """Status, sentence and headers for those who may not."""
        headers = Headers(scope=scope)
        host = host_name(headers.get("host", ""))
        if not host:
            return 400, "The request has no Host header, or a wrong one.", {}
        here = scope.get("server") or ("", 0)
        if not ({host, "*"} & self.hosts or host in LOOPBACK or host == here[0]):
            return 421, "The server does not go by this name; its --allow-host can add it.", {}
        if headers.get("sec-fetch-site") == "cross-site" and scope["method"] not in ("GET", "HEAD"):
            return 403, "Pages of other sites may not ask this server.", {}
        if self.token is not None and not is_open(scope["path"]):
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(
                given.strip().encode(), self.token.encode()
            ):
                return (
                    401,
                    "The server wants its token: Authorization: Bearer …",
                    {"WWW-Authenticate": "Bearer"},
                )
        return None


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith("/static/")


def host_name(header: str) -> str:
    """The name in a Host header, without its port; nothing if it is malformed."""
    if header.startswith("["):
        name, closing, port = header[1:].partition("]")
        name = name if closing else ""
    else:
        name, _, port = header.partition(":")
        port = f":{port}" if port else ""
    if port and not (port[0] == ":" and port[1:].isdecimal() and port.isascii()):
        return ""
    return name.lower().removesuffix(".")


def make_access(host: str, allowed: tuple[str, ...] = (), token_file: Path | None = None) -> Access:
    """For a server that listens at `host`."""
    names = {host.lower(), *(name.lower() for name in allowed)} - {"0.0.0.0", "::", ""}
    if host in ("0.0.0.0", "::"):
        names.add(socket.gethostname().lower())
    for name in allowed:
        if name != "*" and (
            not host_name(name) or (":" in name and not name.startswith("[") and name.count(":") == 1)
        ):
            raise CapsNetError(
                f"--allow-host takes names without a port, such as caps.example.org; got '{name}'."
            )
    return Access(frozenset(names), None if token_file is None else read_token(token_file))


def read_token(path: Path) -> str:
    try:
        token = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise CapsNetError(f"--token-file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CapsNetError(f"--token-file {path} must hold one line of ASCII text.") from error
    if len(token) < LEAST_TOKEN or not token.isprintable() or " " in token:
        raise CapsNetError(
            f"--token-file {path} must hold one word of at least {LEAST_TOKEN} characters, "
            "such as `openssl rand -hex 32` gives."
        )
    return token
