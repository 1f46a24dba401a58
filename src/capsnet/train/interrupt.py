"""Ctrl-C during training: the current step is finished and the state is saved before the program ends."""

import contextlib
import signal
import threading
from collections.abc import Iterator


class Interrupted(Exception):
    """Ctrl-C, after the state was saved."""


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """Set a flag on Ctrl-C, to be checked between steps, where the state is complete; a second Ctrl-C stops at once."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    names = ("SIGINT", "SIGBREAK")  # the second on Windows only
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_interrupt(*_: object) -> None:
        flag.set()
        restore()

    for number in numbers:
        signal.signal(number, on_interrupt)
    try:
        yield flag
    finally:
        restore()
