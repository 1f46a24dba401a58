"""Coverage-guided fuzzing with atheris of what reads strangers' bytes: `make fuzz MINUTES=5`.

python -m soak.fuzz [--minutes 30] [--seed 0] [--corpus build/fuzz] [--out results/reliability] [TARGET ...]

The targets are those of `soak.readers`, with their good files as the first inputs, and `http`, whole requests. An input is
changed by libFuzzer or, as often, by the soak's own changes, which keep checksums right; what reaches new lines of Python is
kept in the corpus for the next run. Compiled libraries (NumPy, Pillow's decoders, safetensors, ONNX Runtime) are run but
not guided. What a target raises beside `CapsNetError`, what ends its process, and what takes longer than `HANG` is counted and
kept below the corpus.
"""

import argparse
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGETS = (
    "http", "picture of a digit", "photograph", "idx", "idx, packed", "NORB", "npz", "table of pictures (CSV)",
    "archive of CIFAR-10", "weights: config.json", "weights: safetensors", "onnx metadata",
)  # fmt: skip
HANG = 10
MEMORY_MB = 3000  # torch, ONNX Runtime and the instrumented libraries take some 600 of it
KEPT = 20
DONE = re.compile(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)


def slug(target: str) -> str:
    return re.sub(r"\W+", "-", target)


def fuzz(target: str, seconds: float, seed: int, corpus: Path) -> dict[str, Any]:
    """Fuzz a target in processes of their own: one that an input has ended is followed by another."""
    failures = corpus / "failures"
    failures.mkdir(parents=True, exist_ok=True)
    result = {"inputs": 0, "branches": 0, "corpus": 0, "tracebacks": 0, "crashes": 0, "hangs": 0}
    told: list[str] = []
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 1:
        with tempfile.TemporaryDirectory() as name:
            log = Path(name) / "failures"
            command = [
                sys.executable,
                "-m",
                "soak.fuzz_target",
                target,
                str(corpus),
                str(log),
                f"{left:.0f}",
                str(seed),
            ]
            ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
            told += log.read_text().splitlines() if log.exists() else []
        found = DONE.findall(ended.stderr)
        if found:
            result["inputs"] += int(found[-1][0])
            result["branches"] = max(result["branches"], int(found[-1][1]))
        if ended.returncode == 0:
            break
        kind = "hangs" if "libFuzzer: timeout" in ended.stderr else "crashes"
        result[kind] += 1
        told.append(f"{kind}: " + " ".join(ended.stderr.splitlines()[-12:])[-500:])
        if not found:  # it does not even start
            break
        seed += 1
    result["corpus"] = sum(path.is_file() for path in corpus.iterdir())
    result["tracebacks"] = sum(not line.startswith(("hangs", "crashes")) for line in told)
    return {**result, **({"failures": told[:KEPT]} if told else {})}


def main() -> None:
    parser = argparse.ArgumentParser(prog="soak.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"some of: {'; '.join(TARGETS)}")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--out", type=Path, help="results/reliability when left out")
    options = parser.parse_args()
    unknown = set(options.targets) - set(TARGETS)
    if unknown:
        parser.error(f"there is no target {', '.join(sorted(unknown))}")
    if importlib.util.find_spec("atheris") is None:
        parser.error("atheris is not installed: pip install atheris (`make fuzz` does it)")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from soak.common import RECORDS, record

    chosen = options.targets or list(TARGETS)
    results, began = {}, time.monotonic()
    for target in chosen:
        corpus = options.corpus.resolve() / slug(target)
        results[target] = fuzz(target, 60 * options.minutes / len(chosen), options.seed, corpus)
        print(target, json.dumps(results[target]), flush=True)
    keys = ("inputs", "tracebacks", "crashes", "hangs")
    sums = {key: sum(result[key] for result in results.values()) for key in keys}
    record(
        "fuzz",
        time.monotonic() - began,
        options.seed,
        {"sum": sums, "targets": results},
        options.out or RECORDS,
    )


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
