"""Training speed and start-up of two commits, in turn on one machine.

Each is a checkout; `git worktree add --detach ../before COMMIT` makes one. For both number types and each number of threads,
`capsnet train mnist` runs in a process of its own, one checkout after the other and the other way round in the next round. A
run gives the seconds from the process's start to its second training step, and then images/s. The first round, which compiles
libraries, is not counted. See README.md for how a number is taken.

    python benchmarks/against.py ../before . [--rounds 7] [--seconds 8] [--threads 1 2] [--record FILE.json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from capsnet.files import write_json
from capsnet.train.provenance import provenance

WARM_UP = 30  # steps
BATCH = 64  # of the recipe `quick`
# A hook on every optimiser's step tells the time in any version of the library.
PROGRAM = """
import json, os, sys, time
start, seconds, batch, arguments = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
import capsnet.cli
from torch.optim.optimizer import register_optimizer_step_post_hook

steps, second, begin = 0, None, None

def after_step(*_):
    global steps, second, begin
    steps += 1
    now = time.time()
    if steps == 2:
        second = now - start
    if steps == {warm_up}:
        begin = now
    if begin and now >= begin + seconds:
        print(json.dumps([second, (steps - {warm_up}) * batch / (now - begin)]), flush=True)
        os._exit(0)

register_optimizer_step_post_hook(after_step)
capsnet.cli.main(arguments)
""".replace("{warm_up}", str(WARM_UP))


def run(checkout: Path, precision: str, threads: int, options: argparse.Namespace) -> tuple[float, float]:
    """Seconds to the second step, and images/s after the first few."""
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    environment["PYTHONPATH"] = str((checkout / "src").resolve())
    with tempfile.TemporaryDirectory() as folder:
        # Training needs images for longer than it is watched; it never gets to its end.
        training = [
            "train",
            "mnist",
            "--validation",
            "0",
            "--no-test",
            "--epochs",
            "99",
            "--save-every",
            "1e9",
        ]
        training += ["--precision", precision, "--threads", str(threads), "--out", f"{folder}/run"]
        command = [sys.executable, "-c", PROGRAM, str(time.time()), str(options.seconds), str(BATCH)]
        done = subprocess.run(
            [*command, *training], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    second, rate = json.loads(done.stdout.splitlines()[-1])
    return second, rate


def commit_of(checkout: Path) -> str:
    """Return the commit that a checkout stands at."""
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    sides = {"before": options.before, "after": options.after}
    results = {}
    for precision in ("float32", "bf16"):
        for threads in options.threads:
            taken: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
            for turn in range(options.rounds + 1):
                for side in sorted(sides, reverse=turn % 2 == 0):
                    found = run(sides[side], precision, threads, options)
                    if turn:
                        taken[side].append(found)
            starts, rates = (
                {side: statistics.median(one[n] for one in found) for side, found in taken.items()}
                for n in (0, 1)
            )
            name = f"{precision}, {threads} threads"
            ratio = round(rates["after"] / rates["before"], 3)
            results[name] = {
                "images_per_second": rates,
                "ratio": ratio,
                "second_step_after_seconds": starts,
                "runs": taken,
            }
            print(
                f"{name}: {rates['before']:.0f} images/s before, {rates['after']:.0f} after, {ratio}; second step after "
                f"{starts['before']:.2f} s before, {starts['after']:.2f} s after"
            )
    if options.record:
        told = provenance(torch.device("cpu"), max(options.threads)) | {"threads": options.threads}
        write_json(options.record, {**told, "before": commit_of(options.before), "batch": BATCH, **results})


if __name__ == "__main__":
    main()
