"""How threads of OpenMP wait for work: spinning for a bounded time, then asleep.

A spinning thread takes its core from everybody else. GNU's OpenMP, which PyTorch brings on Linux, spins for several
milliseconds before it sleeps, so that two trainings on the same cores slow each other down several times over. Sleeping at
once costs a process that runs alone a quarter of its speed. Some 40 microseconds bridge most gaps between two operations.
The bound lies between two that were measured with `benchmarks/side_by_side.py`: 2,000 turns kept 97 % of the speed alone and
86 % of half of it for each of two, 1,300 turns 94 % of both.

OpenMP reads this when it is loaded, which is with torch, so it is set as soon as capsnet is imported, unless the user
has chosen a setting.
"""

import os

SPINS = "1600"  # turns of the loop
CHOSEN_BY_USERS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def bound_spinning() -> None:
    """Set the bound for this process, if it has not loaded OpenMP yet, and for those that it starts."""
    if not any(name in os.environ for name in CHOSEN_BY_USERS):
        os.environ["GOMP_SPINCOUNT"] = SPINS
