"""Pictures of strangers are decoded in processes that may fail: within their time and memory, small ones beside large ones."""

import io
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from capsnet.serve.decode_worker import LENGTHS, decode, pack
from capsnet.serve.limits import Limits


def png(array) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def deep():
    """A picture of 31 KB that has 16 million pixels of 16 bits."""
    return png(np.zeros((4000, 4000), dtype=np.uint16))


@pytest.fixture(scope="module")
def slow():
    """A JPEG of a million pixels that passes over them again and again: seconds of work in 2 MB."""
    file = io.BytesIO()
    Image.new("L", (4000, 4000)).save(file, "JPEG", progressive=True)
    whole = file.getvalue()
    start = whole.index(b"\xff\xda")
    scans = whole[start:-2]
    last = scans[scans.rindex(b"\xff\xda") :]
    return whole[:-2] + last * ((1_900_000 - len(whole)) // len(last)) + b"\xff\xd9"


def memory_of(pid):
    """The most that a process has held of real memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def children(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_small_pictures_do_not_wait_for_large_ones(serve, small, deep):
    with serve({"main": small}) as server, server.client() as client, ThreadPoolExecutor(12) as threads:
        large = [threads.submit(client.post, "/v1/predict", files={"file": deep}) for _ in range(12)]
        times = []
        for _ in range(20):
            began = time.monotonic()
            answer = client.post("/v1/predict", files={"file": png(np.zeros((28, 28), dtype=np.uint8))})
            assert answer.status_code == 200
            times.append(time.monotonic() - began)
        answers = [job.result() for job in large]
        assert max(times) < 2
        assert {a.status_code for a in answers} <= {200, 503}
        assert 200 in {a.status_code for a in answers}
        assert all("Retry-After" in a.headers for a in answers if a.status_code == 503)
        lane = server.service.decoding.lanes["large"]
        if os.path.exists("/proc/self/status"):
            assert memory_of(lane._process.pid) < server.service.limits.decode_bytes


def test_a_picture_that_takes_too_long_is_refused_and_others_are_decoded(serve, small, slow):
    with serve({"main": small}, Limits(decode_seconds=1.0)) as server, server.client() as client:
        began = time.monotonic()
        answer = client.post("/v1/predict", files={"file": ("slow.jpg", slow)})
        assert answer.status_code == 422
        assert "within 1 seconds" in answer.json()["error"]
        assert time.monotonic() - began < 5
        assert (
            client.post(
                "/v1/predict", files={"file": png(np.zeros((2000, 2000), dtype=np.uint8))}
            ).status_code
            == 200
        )


def test_a_decoder_that_dies_is_a_refusal_and_the_next_one_works(serve, small):
    with serve({"main": small}) as server, server.client() as client:
        file = {"file": png(np.zeros((28, 28), dtype=np.uint8))}
        assert client.post("/v1/predict", files=file).status_code == 200
        lane = server.service.decoding.lanes["small"]
        lane._process.kill()
        time.sleep(0.2)
        assert client.post("/v1/predict", files=file).status_code == 422
        assert client.post("/v1/predict", files=file).status_code == 200
        assert lane.restarts == 1


def test_a_picture_that_would_take_too_much_memory_is_refused_by_its_header(serve, small, deep):
    with serve({"main": small}, Limits(decode_bytes=100_000_000)) as server, server.client() as client:
        answer = client.post("/v1/predict", files={"file": ("deep.png", deep)})
        assert answer.status_code == 422
        assert "'deep.png' takes too much memory" in answer.json()["error"]


def test_those_for_whom_there_is_no_room_are_503_at_once(serve, small, deep):
    with serve({"main": small}, Limits(large_queue=0)) as server, server.client() as client:
        answer = client.post("/v1/predict", files={"file": deep})
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1


def test_the_decoders_end_with_the_server(serve, small):
    with serve({"main": small}) as server:
        pids = [lane._process.pid for lane in server.service.decoding.lanes.values()]
        assert len(pids) == 2
    assert all(lane._process is None for lane in server.service.decoding.lanes.values())
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_bug_in_decoding_is_told_apart_from_a_refusal():
    header = {"files": [["x", 1]], "pixels": "many"}
    answer = decode(header, b"x")
    size, _ = LENGTHS.unpack(answer[: LENGTHS.size])
    assert b"bug" in answer[LENGTHS.size :][:size]
    assert pack({}, b"xy")[-2:] == b"xy"
