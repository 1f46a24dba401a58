"""Run the soak: every part for its share of the time given, each with its own record.

python -m soak [--minutes 30] [--count N] [--seed 0] [--out results/reliability] [PART ...]
"""

import argparse
import importlib
import os
import signal
import time
from pathlib import Path

# What share of the time each part takes.
PARTS = {"crowd": 0.15, "requests": 0.1, "files": 0.3, "disks": 0.1, "kills": 0.35}
COUNTED = ("files", "kills")


def main() -> None:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all when left out"
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument(
        "--count", type=int, help="end after so many hostile files, or kills, if that is earlier"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="results/reliability when left out")
    options = parser.parse_args()
    if options.count is not None and not (options.parts and set(options.parts) <= set(COUNTED)):
        parser.error(f"--count is for {' and '.join(COUNTED)}")
    # Before numpy and torch: their threads wait for each other on cores that have other work.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from soak.common import RECORDS, record

    # A job in the background does not get Ctrl-C by itself.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    chosen = {name: share for name, share in PARTS.items() if name in (options.parts or PARTS)}
    for name, share in chosen.items():
        seconds = 60 * options.minutes * share / sum(chosen.values())
        began = time.monotonic()
        part = importlib.import_module(f"soak.{name}")
        counted = {"count": options.count} if name in COUNTED else {}
        result = part.run(seconds, options.seed, **counted)
        record(name, time.monotonic() - began, options.seed, result, options.out or RECORDS)
        print(f"{name}: {result}", flush=True)


if __name__ == "__main__":
    main()
