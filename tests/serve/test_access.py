"""Who is answered: the server's own names only, its own pages only, and with a token only those who bring it."""

import socket

import httpx
import pytest

from capsnet.errors import CapsNetError
from capsnet.serve.access import Access, host_name, make_access, read_token

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]:9", "localhost."]
)
def test_loopback_names_are_answered(client, host):
    assert client.get("/v1/model", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("evil.example:8000", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil", 421),
        ("", 400),
        ("[::1", 400),
        ("localhost:x", 400),
        ("::1", 400),
    ],
)
@pytest.mark.parametrize("path", ["/", "/v1/model", "/healthz", "/nothing"])
def test_other_names_are_refused_whatever_is_asked(client, host, status, path):
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code == status
    assert "evil" not in answer.text
    assert answer.json()["error"]


def test_names_can_be_added(serve, small):
    access = make_access("127.0.0.1", ("Caps.example.org",))
    with serve({"main": small}, access=access) as server, server.client() as client:
        assert client.get("/readyz", headers={"Host": "caps.example.org:443"}).status_code == 200
        assert client.get("/readyz", headers={"Host": "other.example.org"}).status_code == 421
    assert Access(frozenset({"*"})).refusal(scope("anything.example")) is None


def scope(host, path="/", method="GET", here="127.0.0.1", **headers):
    fields = {"host": host, **headers}
    encoded = [(k.replace("_", "-").encode(), v.encode()) for k, v in fields.items()]
    return {"type": "http", "method": method, "path": path, "server": (here, 80), "headers": encoded}


def test_what_host_binds_is_answered():
    assert make_access("caps.local").refusal(scope("caps.local:8000")) is None
    everywhere = make_access("0.0.0.0")
    assert everywhere.refusal(scope(socket.gethostname())) is None
    # The address at which the request came in, whichever of the machine's that is.
    assert everywhere.refusal(scope("192.168.1.7:8000", here="192.168.1.7")) is None
    assert everywhere.refusal(scope("192.168.1.8", here="192.168.1.7"))[0] == 421
    assert everywhere.refusal(scope("0.0.0.0", here="192.168.1.7"))[0] == 421


def test_a_port_is_no_part_of_an_allowed_name():
    with pytest.raises(CapsNetError, match="without a port"):
        make_access("127.0.0.1", ("caps.example.org:443",))


def test_host_names_are_read_with_and_without_ports():
    for header, name in {
        "A.b": "a.b",
        "a:80": "a",
        "[::1]:80": "::1",
        "[::1]": "::1",
        "a:b": "",
        "[::1]x": "",
    }.items():
        assert host_name(header) == name


def test_pages_of_other_sites_cannot_send_pictures(client):
    answer = client.post("/v1/predict", json={"images": []}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200, "a link to the page"
    answer = client.options("/v1/predict", headers={"Origin": "https://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/v1/model", "/nothing"])
def test_browsers_are_told_to_keep_to_this_origin(client, path):
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_without_the_token_nothing_but_the_page_and_health_is_answered(serve, small):
    with serve({"main": small}, access=Access(token=TOKEN)) as server, server.client() as client:
        for path in ("/v1/model", "/v1/samples", "/metrics", "/openapi.json", "/nothing"):
            for value in ("", TOKEN, f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", "Bearer é"):
                given = {"Authorization": value.encode()} if value else {}
                answer = client.get(path, headers=given)
                assert answer.status_code == 401, (path, value)
                assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/", "/static/main.js", "/healthz", "/readyz"):
            assert client.get(path).status_code == 200
        client.headers["Authorization"] = f"bearer {TOKEN}"
        assert client.get("/v1/model").status_code == 200
        assert client.get("/metrics").status_code == 200
    assert TOKEN not in repr(Access(token=TOKEN))


def test_a_token_file_holds_one_long_word(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    for content in (b"", b"short", b"two words of text", b"\xff" * 20):
        file.write_bytes(content)
        with pytest.raises(CapsNetError, match="must hold"):
            read_token(file)
    with pytest.raises(CapsNetError, match="cannot be read"):
        read_token(tmp_path / "nothing")


def test_no_answer_tells_a_path_of_this_machine(serve, untrained, tmp_path):
    engine = untrained("efficient_capsnet")
    engine.network.card.provenance["dataset"] = str(tmp_path / "private" / "pictures")
    with serve({"main": engine}) as server, server.client() as client:
        texts = [
            client.get(path).text for path in ("/v1/model", "/openapi.json", "/metrics", "/static/nothing")
        ]
        texts.append(client.post("/v1/predict", files={"file": b"text"}).text)
        assert client.get("/v1/model").json()["dataset"] == "pictures"
    assert not [text for text in texts if str(tmp_path) in text or "/src/" in text or ".py" in text]


def test_a_host_header_that_comes_twice_is_refused(server):
    port = httpx.URL(server.url).port
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"GET /v1/model HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 400")
