"""Connections that dawdle are closed, and however many there are, an honest client is let in."""

import contextlib
import resource
import socket
import time

import httpx
import pytest

from capsnet.serve.limits import Limits
from capsnet.serve.run import allow_files

HALF = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Le"


def connect(server):
    connection = socket.create_connection(("127.0.0.1", httpx.URL(server.url).port), timeout=10)
    return connection


def closed_within(connection, seconds):
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("sent", [b"", b"G", HALF])
def test_a_connection_without_a_whole_header_is_closed(serve, small, sent):
    with serve({"main": small}, Limits(header_seconds=0.5)) as server, connect(server) as connection:
        connection.sendall(sent)
        assert closed_within(connection, 5)
        assert server.service.connections.overdue == 1


def test_half_a_header_after_an_answered_request_is_closed_too(serve, small):
    with serve({"main": small}, Limits(header_seconds=0.5)) as server, connect(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while b'"ok"}' not in answer:
            answer += connection.recv(65536)
        connection.sendall(HALF)
        assert closed_within(connection, 5)


def test_a_header_that_trickles_in_is_not_given_more_time(serve, small):
    with serve({"main": small}, Limits(header_seconds=0.5)) as server, connect(server) as connection:
        end = time.monotonic() + 5
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() < end:
                connection.sendall(b"G")
                time.sleep(0.05)
        assert time.monotonic() < end


def test_a_request_that_is_being_answered_is_not_cut(serve, small, monkeypatch):
    with serve({"main": small}, Limits(header_seconds=0.3)) as server, server.client() as client:
        batcher = server.service.predictions["main"]
        run = batcher._run
        monkeypatch.setattr(batcher, "_run", lambda jobs: time.sleep(1) or run(jobs))
        assert client.post("/v1/predict", json={"images": [[[0] * 19] * 19]}).status_code == 200


def test_the_connection_that_is_idle_longest_makes_room(serve, small):
    with serve({"main": small}, Limits(connections=3)) as server, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(4)]
        assert closed_within(idle[0], 5)
        assert len(server.service.connections) <= 3
        with server.client() as client:
            assert client.get("/healthz").status_code == 200


def test_when_all_connections_are_busy_one_more_is_503(serve, small):
    with serve({"main": small}, Limits(connections=2, seconds=5)) as server, contextlib.ExitStack() as stack:
        for _ in range(2):
            connection = stack.enter_context(connect(server))
            connection.sendall(HALF + b"ngth: 10\r\n\r\n{")
        end = time.monotonic() + 5
        while server.service.watch.requests < 2 and time.monotonic() < end:
            time.sleep(0.01)
        with server.client() as client:
            answer = client.get("/healthz")
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert "busy" in answer.json()["error"]


def test_two_thousand_half_open_connections_keep_nobody_out(serve, small):
    allow_files(6000)  # this process holds both ends of each
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 6000:
        pytest.skip("this system allows too few files")
    with serve({"main": small}, Limits(header_seconds=3)) as server, contextlib.ExitStack() as stack:
        slowest, crowd = 0.0, []
        for n in range(2000):
            connection = stack.enter_context(connect(server))
            connection.sendall(HALF)
            crowd.append(connection)
            if n % 100 == 99:
                began = time.monotonic()
                with server.client() as client:
                    assert client.get("/v1/model").status_code == 200
                slowest = max(slowest, time.monotonic() - began)
        assert slowest < 2
        assert len(server.service.connections) <= server.service.limits.connections
        end = time.monotonic() + 15
        assert all(closed_within(connection, max(0.1, end - time.monotonic())) for connection in crowd)


def test_a_client_that_does_not_read_its_answer_is_cut(serve, trained, caplog):
    limits = Limits(seconds=0.5, slowest=10**9)
    with serve({"main": trained}, limits) as server, socket.socket() as connection:
        # Little room on the way, else the system itself would take the whole answer.
        server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(server.listener.getsockname())
        body = str({"images": [[[0] * 28] * 28] * 64}).replace("'", '"').encode()
        head = b"POST /v1/predict?include=reconstructions,input&top=10 HTTP/1.1\r\nHost: localhost\r\n"
        head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sendall(head + body)
        watch, end = server.service.watch, time.monotonic() + 10
        while not watch.held and time.monotonic() < end:
            time.sleep(0.01)
        while watch.requests and time.monotonic() < end:
            time.sleep(0.01)
        assert watch.requests == watch.held == 0
        assert not len(server.service.connections)
        assert caplog.text == "", "a stranger who leaves is no news"
