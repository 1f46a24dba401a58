"""Downloads that are all there or not there: into a temporary file beside the goal, checked, then renamed.

Only http and https, and from https never back to http; the size is bounded before and while reading, and a server that
stalls is given up.
"""

import contextlib
import http.client
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capsnet.data.files import CHUNK, find_file
from capsnet.errors import CapsNetError

# bytes so far, and all of them where the server says
Progress = Callable[[str, int, int | None], None]
Check = Callable[[Path], object]


@dataclass(frozen=True)
class Remote:
    """A file to get: its name in the folder, where it is, the most bytes it may have, and what refuses a wrong one."""

    name: str
    urls: tuple[str, ...]
    max_bytes: int
    check: Check


def fetch_all(title: str, remotes: Sequence[Remote], folder: Path, progress: Progress | None = None) -> Path:
    """Gets what is missing of `remotes` into `folder`, each from the first of its addresses that has it."""
    for remote in remotes:
        if find_file(folder, remote.name.removesuffix(".gz")):
            continue
        problems = []
        for url in remote.urls:
            try:
                download(
                    url,
                    folder / remote.name,
                    max_bytes=remote.max_bytes,
                    check=remote.check,
                    progress=progress,
                )
                break
            except CapsNetError as error:
                problems.append(str(error).rstrip("."))
        else:
            names = ", ".join(r.name for r in remotes)
            raise CapsNetError(
                f"{title} is not on this machine and could not be downloaded ({'; '.join(problems)}); "
                f"put {names} into {folder}."
            )
    return folder


def download(
    url: str,
    path: Path,
    *,
    max_bytes: int,
    check: Check | None = None,
    timeout: float = 30.0,
    progress: Progress | None = None,
) -> Path:
    """Writes what `url` gives to `path`, or raises and leaves `path` and its folder as they were.

    Args:
        check: called with the temporary file; raises when it is not what was asked for.
        timeout: seconds without an answer after which the server is given up.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise CapsNetError(f"{url} is not an http or https address.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise CapsNetError(f"{path.parent} cannot be written to: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "wb") as file:
            _stream(url, file.write, path.name, max_bytes, timeout, progress)
            file.flush()
            os.fsync(file.fileno())
        if check is not None:
            _checked(url, Path(temporary), check)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise CapsNetError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return path


def _stream(
    url: str,
    write: Callable[[bytes], object],
    name: str,
    max_bytes: int,
    timeout: float,
    progress: Progress | None,
) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "capsnet"})
    try:
        response = _opener().open(request, timeout=timeout)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise CapsNetError(f"{url} cannot be reached: {_reason(error)}.") from error
    with response:
        length = response.headers.get("Content-Length")
        total = int(length) if length is not None and length.isdecimal() else None
        if total is not None and total > max_bytes:
            raise CapsNetError(f"{url} is {total} bytes long, more than the {max_bytes} expected at most.")
        done = 0
        while True:
            try:
                chunk = response.read(min(CHUNK, max_bytes - done + 1))
            except (OSError, http.client.HTTPException) as error:
                raise CapsNetError(f"{url} broke off after {done} bytes: {_reason(error)}.") from error
            if not chunk:
                break
            done += len(chunk)
            if done > max_bytes:
                raise CapsNetError(f"{url} is longer than the {max_bytes} bytes expected at most.")
            write(chunk)
            if progress is not None:
                progress(name, done, total)
    if total is not None and done != total:
        raise CapsNetError(f"{url} broke off after {done} of {total} bytes.")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects from https go to https only; those from http may stay there."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme != "https" and scheme != req.type:
            raise urllib.error.URLError(f"it redirects to {newurl[:100]}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """As urllib's own, without ftp, files and data addresses."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        _Redirects,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _checked(url: str, temporary: Path, check: Check) -> None:
    try:
        check(temporary)
    except CapsNetError as error:
        raise CapsNetError(f"{url} is not the file it should be: its checksum or format is wrong.") from error


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"HTTP {error.code}"
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason or type(reason).__name__)
