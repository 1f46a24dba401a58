"""What is too much is refused in good order, and the server goes on answering."""

import io
import os
import socket
import struct
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from PIL import Image

from capsnet.serve.limits import Limits

TYPES = ("application/json", "multipart/form-data; boundary=b", "image/png", "text/plain")


def chunks(total: int):
    for _ in range(0, total, 50_000):
        yield b" " * 50_000


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("path", ["/v1/predict", "/v1/reconstruct", "/", "/nothing"])
def test_too_large_a_body_is_413_whatever_its_type_and_path(client, kind, path):
    for content in (b" " * 2_000_001, chunks(3_000_000)):
        answer = client.post(path, content=content, headers={"Content-Type": kind})
        assert answer.status_code == 413
        assert "2,000,000 bytes" in answer.json()["error"]


def test_a_body_of_just_the_limit_is_read(client):
    answer = client.post(
        "/v1/predict", content=b" " * 2_000_000, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400


def talk(server, request: bytes, seconds: float = 10) -> bytes:
    """Sends bytes as they are and reads until the server closes or falls silent."""
    host, port = server.url.removeprefix("http://").strip("/").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
            if b"\r\n\r\n" in answer and b"}" in answer:
                break
        return answer


def test_an_announced_body_is_refused_before_it_comes(server):
    head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000000\r\n\r\n"
    began = time.monotonic()
    assert b" 413 " in talk(server, head)
    assert time.monotonic() - began < 2


def test_a_stream_without_end_is_cut_off(server):
    head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"186a0\r\n" + b" " * 100_000 + b"\r\n"
    host, port = server.url.removeprefix("http://").strip("/").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            connection.sendall(2000 * chunk)


def test_a_request_that_dawdles_is_408(serve, small):
    with serve({"main": small}, Limits(seconds=0.3)) as server:
        head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"
        assert b" 408 " in talk(server, head)


def picture(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("1", (width, height)).save(file, "PNG")
    return file.getvalue()


def test_more_than_64_images_are_413(client):
    files = [("file", (f"{n}.png", picture(9, 9))) for n in range(65)]
    assert client.post("/v1/predict", files=files[:64]).status_code == 200
    answer = client.post("/v1/predict", files=files)
    assert (answer.status_code, "at most 64" in answer.json()["error"]) == (413, True)
    answer = client.post("/v1/predict", json={"images": torch.zeros(65, 28, 28).int().tolist()})
    assert (answer.status_code, "at most 64" in answer.json()["error"]) == (413, True)
    answer = client.post("/v1/reconstruct", json={"poses": [[0] * 16] * 65, "classes": [0] * 65})
    assert (answer.status_code, "at most 64" in answer.json()["error"]) == (413, True)


def bomb(width: int, height: int) -> bytes:
    """A PNG of a hundred bytes whose header claims any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [5000, 8000, 20_000, 2**31 - 1])
def test_a_picture_is_judged_by_its_header(client, side):
    began = time.monotonic()
    answer = client.post("/v1/predict", files={"file": ("bomb.png", bomb(side, side))})
    assert answer.status_code == 422
    assert "million" in answer.json()["error"]
    assert "bomb.png" in answer.json()["error"]
    assert time.monotonic() - began < 1


def test_the_pictures_of_a_request_share_their_pixels(client):
    files = [("file", (f"{n}.png", picture(3000, 2000))) for n in range(3)]
    assert client.post("/v1/predict", files=files[:2]).status_code == 200
    answer = client.post("/v1/predict", files=files)
    assert answer.status_code == 422
    assert "'2.png' is 3000 x 2000 pixels; at most 4 million" in answer.json()["error"]


def test_a_full_queue_is_503_with_retry_after_and_those_within_are_answered(serve, small, monkeypatch):
    with serve({"main": small}, Limits(queue=4, wait=0, seconds=60)) as server, server.client() as client:
        batcher = server.service.predictions["main"]
        go, run = threading.Event(), batcher._run

        def slowly(questions):
            go.wait(20)
            return run(questions)

        monkeypatch.setattr(batcher, "_run", slowly)
        body = {"images": torch.zeros(2, 19, 19).tolist()}
        with ThreadPoolExecutor(3) as threads:
            first = [threads.submit(client.post, "/v1/predict", json=body) for _ in range(3)]
            end = time.monotonic() + 10
            while batcher._images < 4 and time.monotonic() < end:
                time.sleep(0.01)
            refused = client.post("/v1/predict", json=body)
            go.set()
            assert [f.result().status_code for f in first] == [200] * 3
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) >= 1
        assert "try again" in refused.json()["error"]
        assert client.post("/v1/predict", json=body).status_code == 200


def test_a_crowd_is_503_before_its_bodies_are_read(serve, small):
    with serve({"main": small}, Limits(requests=1, seconds=5)) as server, server.client() as client:
        host, port = server.url.removeprefix("http://").strip("/").split(":")
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
            refused = wait_for(503, client)
        assert refused.headers["Retry-After"] == "1"
        wait_for(200, client)


def wait_for(status, client):
    """The first answer with that status; whether another client's request is being read shows in nothing else."""
    end = time.monotonic() + 4
    while (answer := client.get("/v1/model")).status_code != status:
        assert time.monotonic() < end, answer.text
        time.sleep(0.01)
    return answer


def test_an_answer_that_takes_too_long_is_503(serve, small, monkeypatch):
    with serve({"main": small}, Limits(seconds=0.3)) as server, server.client() as client:
        batcher = server.service.predictions["main"]
        run, go = batcher._run, threading.Event()

        def slowly(questions):
            go.wait(20)
            return run(questions)

        monkeypatch.setattr(batcher, "_run", slowly)
        body = {"images": torch.zeros(1, 19, 19).tolist()}
        answer = client.post("/v1/predict", json=body)
        go.set()
        assert answer.status_code == 503
        assert "Retry-After" in answer.headers
        assert client.post("/v1/predict", json=body).status_code == 200


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux only")
def test_an_upload_leaves_no_file_behind(client, tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    noise = os.urandom(1_900_000)
    assert client.post("/v1/predict", files={"file": noise}).status_code == 422
    assert not list(tmp_path.iterdir())
