"""Real servers on loopback: uvicorn in a thread, with the bundled weights or with untrained ones."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import torch

import capsnet
from capsnet.card import Card
from capsnet.data.mnist import PREPROCESSING as DIGIT
from capsnet.data.preprocessing import Preprocessing
from capsnet.serve.app import create_app
from capsnet.serve.engine import Engine
from capsnet.serve.run import Server, bind, url

DIGITS = tuple("0123456789")
WHOLE = Preprocessing(kind="picture", divisor=255.0, light_on_dark=True)


class Serving:
    """A running server: its address, and its service for tests that look inside."""

    def __init__(self, listener, app):
        self.listener = listener
        self.url = url(listener)
        self.service = app.state.service

    def client(self):
        return httpx.Client(base_url=self.url, timeout=30, trust_env=False)


@contextmanager
def running(engines, limits=None, access=None, watch=None) -> Iterator[Serving]:
    app = create_app(engines, limits, access, watch)
    listener = bind("127.0.0.1", 0)
    server = Server(app)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    end = time.monotonic() + 30
    while not server.started and time.monotonic() < end:
        time.sleep(0.01)
    assert server.started
    try:
        yield Serving(listener, app)
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


@pytest.fixture(scope="session")
def serve():
    """`with serve(engines, limits) as server:` for a test's own limits."""
    return running


@pytest.fixture(scope="session")
def trained():
    return Engine("efficient_capsnet.mnist")


def save_untrained(folder: Path, name: str, card: Card, *shape, **options) -> str:
    torch.manual_seed(0)
    capsnet.save(capsnet.create_model(name, *shape, **options), folder, card=card)
    return str(folder)


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """An untrained network for two digits."""
    card = Card(DIGITS, WHOLE.to_dict(), {"dataset": "multimnist"}, {})
    return Engine(
        save_untrained(tmp_path_factory.mktemp("pairs") / "w", "efficient_capsnet_multimnist", card)
    )


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """An untrained network for small images: quick to make requests for."""
    card = Card(DIGITS[:3], DIGIT.to_dict(), {}, {})
    folder = tmp_path_factory.mktemp("small") / "w"
    return Engine(save_untrained(folder, "efficient_capsnet", card, (1, 19, 19), 3))


@pytest.fixture
def untrained(tmp_path):
    """Any registered network, untrained, for MNIST's pictures."""

    def make(name, **options):
        card = Card(DIGITS, DIGIT.to_dict(), {}, {})
        return Engine(save_untrained(tmp_path / name, name, card, (1, 28, 28), 10, **options))

    return make


@pytest.fixture(scope="session")
def server(trained, pairs):
    with running({"main": trained, "pairs": pairs}) as serving:
        yield serving


@pytest.fixture(scope="session")
def client(server):
    with server.client() as client:
        yield client
