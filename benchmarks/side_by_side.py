"""How two trainings on the same cores slow each other down, for several settings of how waiting threads spin.

In GNU's OpenMP, which PyTorch brings on Linux, threads that wait for work spin for a while before they sleep. That is best for
a process alone, but takes the cores from another one. Each setting trains alone and then beside a second process, in turn, for
several rounds. The aim is at least 95 % of OpenMP's own speed alone and at least 90 % of half that speed for each of two at
once. See README.md for how a number is taken.

    python benchmarks/side_by_side.py [--threads 2] [--seconds 8] [--rounds 5] [--spins 300000 capsnet 2000] [--record]

300,000 turns are OpenMP's own default; `capsnet` leaves it to `capsnet.waiting`, as users have it; `passive` sets
OMP_WAIT_POLICY. `--record` keeps the numbers in results/benchmarks.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from capsnet.files import write_json
from capsnet.train.provenance import provenance
from capsnet.waiting import CHOSEN_BY_USERS

RESULTS = Path(__file__).resolve().parent.parent / "results" / "benchmarks" / "side_by_side.json"
DEFAULT = "300000"
# Trains; told on stdin that all processes do, counts steps for some seconds, and goes on until it is stopped, so that nobody
# else is measured alone.
PROGRAM = """
import sys, threading, time
seconds, arguments = float(sys.argv[1]), sys.argv[2:]
import capsnet.cli
from torch.optim.optimizer import register_optimizer_step_post_hook

told = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
steps, counted, begin, done = 0, 0, None, False

def after_step(*_):
    global steps, counted, begin, done
    steps += 1
    if steps == 20:
        print("ready", flush=True)
    if not told.is_set() or done:
        return
    if begin is None:
        begin = time.perf_counter()
        return
    counted += 1
    taken = time.perf_counter() - begin
    if taken >= seconds:
        print(counted / taken, flush=True)
        done = True

register_optimizer_step_post_hook(after_step)
capsnet.cli.main(arguments)
"""
BATCH = 64  # of the recipe `quick`
TRAINING = (
    "train",
    "mnist",
    "--validation",
    "0",
    "--no-test",
    "--epochs",
    "99",
    "--save-every",
    "1e9",
    "--json",
)


def setting(spin: str) -> dict[str, str]:
    """The environment of one setting."""
    plain = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", *CHOSEN_BY_USERS)}
    settings = {"capsnet": {}, "passive": {"OMP_WAIT_POLICY": "PASSIVE"}}
    return plain | settings.get(spin, {"GOMP_SPINCOUNT": spin})


def rates(spin: str, processes: int, options: argparse.Namespace) -> list[float]:
    """Images/s of each of some trainings at once."""
    folders = [tempfile.TemporaryDirectory() for _ in range(processes)]
    program, pipe = [sys.executable, "-c", PROGRAM, str(options.seconds), *TRAINING], subprocess.PIPE
    started = [
        subprocess.Popen(
            [*program, "--threads", str(options.threads), "--out", f"{folder.name}/run"],
            env=setting(spin),
            stdin=pipe,
            stdout=pipe,
            text=True,
        )
        for folder in folders
    ]
    try:
        assert [process.stdout.readline() for process in started] == ["ready\n"] * processes
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        return [BATCH * float(process.stdout.readline()) for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()
        for folder in folders:
            folder.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spins", nargs="+", default=[DEFAULT, "capsnet", "5000", "2000", "passive"])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    taken: dict[str, dict[str, list[float]]] = {s: {"alone": [], "each of two": []} for s in options.spins}
    for _ in range(options.rounds):
        for spin, found in taken.items():
            found["alone"] += rates(spin, 1, options)
            found["each of two"] += rates(spin, 2, options)
    medians = {s: {k: statistics.median(v) for k, v in found.items()} for s, found in taken.items()}
    best = medians[DEFAULT]["alone"] if DEFAULT in medians else max(m["alone"] for m in medians.values())
    for spin, median in medians.items():
        print(
            f"{spin:>8}: alone {median['alone']:6.0f} images/s, {100 * median['alone'] / best:5.1f} %; each of two "
            f"{median['each of two']:6.0f}, {100 * median['each of two'] / (best / 2):5.1f} % of half"
        )
    if options.record:
        told = {**provenance(torch.device("cpu"), options.threads), "batch": BATCH}
        write_json(RESULTS, {**told, "images_per_second": taken, "medians": medians})


if __name__ == "__main__":
    main()
