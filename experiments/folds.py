"""Sum a trial over its folds: mean validation loss first, then the errors on all training images together.

Each fold is a run folder of `capsnet train ... --fold K/N` or its kept result; all folds of the trial are needed:

    python experiments/folds.py runs/fast-fold*            one trial
    python experiments/folds.py results/folds/*.json       one line per trial, best first

Runs belong to the same trial when they differ in nothing but the fold. A run counts as it stands at its last epoch, so that
no epoch is chosen on the images that judge it; `--best` takes the epoch of the best checkpoint instead.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from capsnet.config import trial_of


class Sum(NamedTuple):
    """A trial over all its folds. `images` is how many were held out in all."""

    loss: float
    errors: int
    images: int
    minutes: float
    losses: list[float]


def read_result(path: Path) -> dict[str, Any]:
    """Read a run folder's or a kept result."""
    return json.loads((path / "result.json" if path.is_dir() else path).read_text())


def add_folds(results: list[dict[str, Any]], best: bool = False) -> Sum:
    """Add up one trial; refuse folds that are missing or there twice."""
    folds = [result["config"]["fold"] for result in results]
    parts = int(folds[0].partition("/")[2])
    expected = [f"{part}/{parts}" for part in range(1, parts + 1)]
    if sorted(folds, key=lambda fold: int(fold.partition("/")[0])) != expected:
        raise ValueError(
            f"a trial needs each of {', '.join(expected)} once; it has {', '.join(sorted(folds))}"
        )
    rows = [result["curve"][result["selected"]["epoch"] - 1 if best else -1] for result in results]
    images = [result["validation_images"] for result in results]
    errors = [round(n * row["validation_error_percent"] / 100) for n, row in zip(images, rows, strict=True)]
    losses = [row["validation_loss"] for row in rows]
    minutes = sum(result["seconds"] for result in results) / 60
    return Sum(sum(losses) / parts, sum(errors), sum(images), minutes, losses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "runs", nargs="+", type=Path, help="run folders or kept results, of one trial or of several"
    )
    parser.add_argument(
        "--best", action="store_true", help="the best checkpoint's epoch in place of the last"
    )
    options = parser.parse_args()
    trials: dict[str, list[tuple[Path, dict[str, Any]]]] = defaultdict(list)
    for path in options.runs:
        result = read_result(path)
        if result["config"].get("fold"):
            trials[trial_of(result["config"])].append((path, result))
        else:
            print(f"{path} is not of a fold", file=sys.stderr)
    lines = []
    for runs in trials.values():
        name = min(str(path) for path, _ in runs)
        try:
            total = add_folds([result for _, result in runs], options.best)
        except ValueError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        lines.append((total, name))
    print("mean loss  errors  images  minutes  losses of the folds")
    for total, name in sorted(lines):
        losses = " ".join(f"{loss:.5f}" for loss in total.losses)
        print(f"{total.loss:.6f} {total.errors:7d} {total.images:7d} {total.minutes:8.1f}  {losses}  {name}")


if __name__ == "__main__":
    main()
