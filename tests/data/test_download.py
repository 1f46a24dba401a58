"""Downloads, from a server on this machine: whole or not at all."""

import gzip
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from capsnet.data import fashion_mnist, get_dataset_info, load_dataset
from capsnet.data.download import Remote, _Redirects, download, fetch_all
from capsnet.data.idx import read_idx
from capsnet.errors import CapsNetError

from .test_idx import idx_bytes

CONTENT = bytes(range(256)) * 20_000


class Handler(BaseHTTPRequestHandler):
    files: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        path, _, how = self.path.lstrip("/").partition("?")
        if how.startswith("to="):
            self.send_response(302)
            self.send_header("Location", how.removeprefix("to="))
            return self.end_headers()
        if path not in self.files:
            return self.send_error(404)
        content = self.files[path]
        self.send_response(200)
        if how != "no-length":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if how == "broken" else content)

    def log_message(self, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *args: object) -> None:
        """A client that hangs up early is part of the tests."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    Handler.files = {"data.gz": CONTENT}
    with Server(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


@pytest.mark.parametrize("how", ["", "?no-length"])
def test_gets_the_bytes_and_tells_how_far(tmp_path: Path, server: str, how: str) -> None:
    seen: list[tuple[str, int, int | None]] = []
    path = tmp_path / "deep" / "data.gz"
    download(f"{server}/data.gz{how}", path, max_bytes=len(CONTENT), progress=lambda *a: seen.append(a))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("data.gz", len(CONTENT), None if how else len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert [p.name for p in path.parent.iterdir()] == ["data.gz"]
    assert path.stat().st_mode & 0o777 == 0o644


def refuse(path: Path) -> None:
    raise CapsNetError("no")


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("/nothing.gz", {}, "cannot be reached: HTTP 404"),
        ("/data.gz?broken", {}, "broke off after"),
        ("/data.gz", {"max_bytes": 1000}, "more than the 1000 expected"),
        ("/data.gz?no-length", {"max_bytes": 1000}, "longer than the 1000 bytes"),
        ("/data.gz", {"check": refuse}, "is not the file it should be"),
    ],
)
def test_a_failure_leaves_nothing_and_keeps_what_was_there(
    tmp_path: Path, server: str, address: str, options: dict, message: str
) -> None:
    path = tmp_path / "data.gz"
    path.write_bytes(b"before")
    with pytest.raises(CapsNetError, match=message):
        download(server + address, path, **{"max_bytes": 10**8, **options})
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_server_that_is_not_there_and_an_address_that_is_none(tmp_path: Path, server: str) -> None:
    with pytest.raises(CapsNetError, match="cannot be reached"):
        download("http://127.0.0.1:9/x", tmp_path / "x", max_bytes=10)
    with pytest.raises(CapsNetError, match="not an http or https address"):
        download("file:///etc/hostname", tmp_path / "x", max_bytes=10)
    with pytest.raises(CapsNetError, match="cannot be reached"):
        download("http://", tmp_path / "x", max_bytes=10)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("goal", ["ftp://127.0.0.1/data.gz", "file:///etc/hostname", "data:,x"])
def test_redirects_lead_to_web_addresses_only(tmp_path: Path, server: str, goal: str) -> None:
    with pytest.raises(CapsNetError, match="cannot be reached"):
        download(f"{server}/data.gz?to={goal}", tmp_path / "x", max_bytes=10**8)
    assert list(tmp_path.iterdir()) == []
    assert (
        download(f"{server}/x?to={server}/data.gz", tmp_path / "x", max_bytes=10**8).read_bytes() == CONTENT
    )


@pytest.mark.parametrize(
    ("goal", "followed"), [("https://other.example/x", True), ("http://data.example/x", False)]
)
def test_from_https_no_redirect_leads_to_http(goal: str, followed: bool) -> None:
    request = urllib.request.Request("https://data.example/x")
    follow = partial(_Redirects().redirect_request, request, None, 302, "Found", {}, goal)
    if followed:
        assert follow().full_url == goal
    else:
        with pytest.raises(urllib.error.URLError, match="which is not https"):
            follow()


def test_a_place_that_cannot_be_written(tmp_path: Path, server: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CapsNetError, match="cannot be written to"):
        download(f"{server}/data.gz", tmp_path / "file" / "data.gz", max_bytes=10**8)


def test_the_next_address_is_tried_and_present_files_are_kept(tmp_path: Path, server: str) -> None:
    remotes = [
        Remote("data.gz", (f"{server}/nothing.gz", f"{server}/data.gz"), 10**8, lambda path: None),
        Remote("here.gz", ("http://127.0.0.1:9/x",), 10**8, refuse),
    ]
    (tmp_path / "here").write_bytes(b"unpacked")
    assert fetch_all("The set", remotes, tmp_path) == tmp_path
    assert (tmp_path / "data.gz").read_bytes() == CONTENT


@pytest.fixture
def small_fashion(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: str) -> dict[str, bytes]:
    """A tiny set in Fashion-MNIST's place, on the server only."""
    rng = np.random.default_rng(0)
    files, sums = {}, {}
    for name in fashion_mnist.FILES:
        n = 50 if name.startswith("train") else 20
        shape = (n, 28, 28) if "images" in name else (n,)
        files[f"{name}.gz"] = gzip.compress(idx_bytes(rng.integers(0, 10, shape, dtype=np.uint8)))
        (tmp_path / "sum.gz").write_bytes(files[f"{name}.gz"])
        sums[name] = read_idx(tmp_path / "sum.gz").sha256
    Handler.files = files
    monkeypatch.setattr(fashion_mnist, "FILES", sums)
    monkeypatch.setattr(fashion_mnist, "SOURCES", (f"{server}/{{}}",))
    monkeypatch.setattr(fashion_mnist, "DEBIAN", tmp_path / "debian")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CAPSNET_DATA", raising=False)
    return files


def test_fashion_mnist_is_downloaded_once_into_the_cache(tmp_path: Path, small_fashion: dict) -> None:
    info = get_dataset_info("fashion_mnist")
    assert info.find(None) is None
    data = load_dataset("fashion_mnist")
    assert data.train.images.shape == (50, 1, 28, 28)
    assert data.test.labels.shape == (20,)
    assert info.find(None) == tmp_path / "cache" / "capsnet" / "fashion-mnist"
    Handler.files = {}
    assert (load_dataset("fashion_mnist").test.images == data.test.images).all()


def test_fashion_mnist_is_found_in_each_place_in_order(
    tmp_path: Path, small_fashion: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = partial(fashion_mnist.find, tmp_path / "given")
    monkeypatch.setenv("CAPSNET_DATA", str(tmp_path / "env"))
    places = [
        tmp_path / "debian",
        tmp_path / "cache" / "capsnet" / "fashion-mnist",
        tmp_path / "env",
        tmp_path / "env" / "fashion-mnist",
        tmp_path / "given" / "fashion-mnist",
    ]
    for place in places:
        place.mkdir(parents=True)
        for name, content in small_fashion.items():
            (place / name).write_bytes(content)
        assert find() == place


def test_without_files_or_network_the_error_names_what_to_put_where(
    tmp_path: Path, small_fashion: dict
) -> None:
    Handler.files = {}
    with pytest.raises(CapsNetError) as error:
        load_dataset("fashion_mnist", data_dir=tmp_path / "given")
    text = str(error.value)
    assert all(name in text for name in small_fashion)
    assert str(tmp_path / "given" / "fashion-mnist") in text
    assert "HTTP 404" in text


def test_a_download_with_the_wrong_content_is_refused_and_not_kept(
    tmp_path: Path, small_fashion: dict
) -> None:
    name = "t10k-labels-idx1-ubyte.gz"
    Handler.files = {**small_fashion, name: gzip.compress(idx_bytes(np.ones(20, np.uint8)))}
    with pytest.raises(CapsNetError, match="checksum or format is wrong"):
        load_dataset("fashion_mnist", data_dir=tmp_path / "given")
    kept = sorted(p.name for p in (tmp_path / "given" / "fashion-mnist").iterdir())
    assert kept == sorted(set(small_fashion) - {name})
