"""A kill that the system carries out by itself, at its moment: a process that watches would be late on a busy machine."""

import ctypes
import os
import signal
import sys

CLOCK_MONOTONIC = 1
SIGEV_SIGNAL = 0


class SignalEvent(ctypes.Structure):
    """Linux's `struct sigevent`, as far as it is needed; it has 64 bytes in all."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_byte * 48),
    )


class TimerSpecification(ctypes.Structure):
    """Linux's `struct itimerspec`."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "after_s", "after_ns"))


LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def kill_me_after(seconds: float) -> None:
    """Have the system kill this process with SIGKILL after so many seconds, whatever it does then."""
    assert LIBC is not None
    timer = ctypes.c_void_p()
    event = SignalEvent(None, signal.SIGKILL, SIGEV_SIGNAL)
    whole = int(seconds)
    # A timer of 0 never rings.
    moment = TimerSpecification(0, 0, whole, max(1, int(1e9 * (seconds - whole))))
    if LIBC.timer_create(CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)) or LIBC.timer_settime(
        timer, 0, ctypes.byref(moment), None
    ):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
