"""How threads of OpenMP wait for work: awake for a moment, and no longer than that while other processes want the cores.

A thread that waits spins: it sees new work at once, but takes its core from everybody else. GNU's OpenMP, which PyTorch brings
on Linux, spins for several milliseconds before it sleeps, so that two trainings on the same cores slow each other down several
times over. No single bound suits both: one short enough for two trainings slows down one that has the machine to itself.
So there are two. `bound_spinning` sets the one for a process alone. `sharing_cores` watches how long this process's threads
are kept from a core, and while they are, makes OpenMP use its bound for crowded machines, which hardly spins.
`benchmarks/side_by_side.py` measures both.

OpenMP takes a machine for crowded when it has more threads than the machine has cores. So a few more threads are started,
which do nothing but sleep. OpenMP reads the first bound when it is loaded, which is with torch, so it is set as soon as capsnet
is imported. Whoever sets one of OpenMP's own variables decides alone.
"""

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from capsnet.machine import cores

SPINS = "5000"  # turns of the loop, some tenth of a millisecond
CHOSEN_BY_USERS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")

LOOK_EVERY = 0.5  # seconds
CROWDED = 0.2  # seconds kept from a core, per second: alone some 0.02, beside another training 0.6
CALM_LOOKS = 10  # in a row, before the machine counts as free again
MOST_SLEEPERS = 64  # no more threads than that are started
WATCH, SLEEPER = "capsnet-cores", "capsnet-crowd"  # the threads' names


def bound_spinning() -> None:
    """Set the bound for this process, if it has not loaded OpenMP yet, and for those that it starts."""
    if not any(name in os.environ for name in CHOSEN_BY_USERS):
        os.environ["GOMP_SPINCOUNT"] = SPINS


@contextlib.contextmanager
def sharing_cores(threads: int) -> Iterator[None]:
    """Let the `threads` of this process's OpenMP sleep sooner, meanwhile, whenever other processes want their cores."""
    if threads < 2 or not _bound_is_ours() or _enter_region() is None or not _waited():
        yield
        return
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(threads, ended), name=WATCH, daemon=True)
    watch.start()
    try:
        yield
    finally:
        ended.set()
        watch.join()


def _bound_is_ours() -> bool:
    return os.environ.get("GOMP_SPINCOUNT") == SPINS and "OMP_WAIT_POLICY" not in os.environ


def _watch(threads: int, ended: threading.Event) -> None:
    calm, free = 0, None
    before = _waited()
    while not ended.wait(LOOK_EVERY):
        now = _waited()
        waited = sum(seconds - before.get(thread, seconds) for thread, seconds in now.items())
        before = now
        calm = 0 if waited > CROWDED * LOOK_EVERY else calm + 1
        if not calm and free is None:
            free = _crowd(threads)
        elif calm >= CALM_LOOKS and free is not None:
            free.set()
            free = None
    if free is not None:
        free.set()


def _waited() -> dict[str, float]:
    """Return for each thread of this process the seconds that it was ready to run and had no core; empty where nobody tells."""
    found = {}
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError, IndexError, ValueError):  # a thread that has just ended
                found[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return found


def _crowd(threads: int) -> threading.Event:
    """Start as many sleeping threads as make OpenMP's more than the cores; they end when the event is set."""
    free = threading.Event()
    team = max(cores() - threads, 0) + 2  # with the one that starts them
    enter_region = _enter_region()

    def sleep() -> None:
        if enter_region is not None and team <= MOST_SLEEPERS:
            enter_region(team)
        free.wait()  # OpenMP keeps the team as long as this thread lives

    threading.Thread(target=sleep, name=SLEEPER, daemon=True).start()
    return free


def _enter_region() -> Callable[[int], None] | None:
    """Return a function that runs an empty parallel region in the OpenMP that torch has loaded; None if it is not GNU's."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        parallel, nothing = library.GOMP_parallel, ctypes.cast(library.sched_yield, ctypes.c_void_p)
        return lambda team: parallel(nothing, None, ctypes.c_uint(team), ctypes.c_uint(0))
    return None
