"""All systems, and all routings in one skeleton, on MNIST at the same number of images seen.

One run folder a run, in an order that gives every system a number early; finished runs are skipped and broken ones resumed, so
the script can be stopped and started at will. Each result goes to results/ as it comes. The systems' convolutions run in
bfloat16, all systems' alike: that halves the time of the largest; everything is evaluated in float32.

    python experiments/same_budget.py --runs ../runs/budget [--only systems|routings|reconstruction] [--model M] [--threads N]
"""

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from capsnet.config import Config
from capsnet.errors import CapsNetError
from capsnet.files import write_json
from capsnet.train.loop import train
from capsnet.train.progress import Lines
from capsnet.train.recipes import get_recipe

RESULTS = Path(__file__).resolve().parent.parent / "results"
LARGE, SMALL = 300_000, 30_000
# Above and below 150 images/s in results/benchmarks/cost_mnist.json; the slowest of each last.
FAST = ("efficient_capsnet", "cnn_small", "base_capsnet", "cnn_hinton", "hfc", "ar_capsnet")
SLOW = ("capsnet", "da_capsnet", "cnn_sabour", "matrix_capsnet", "vb_capsnet")
BOTH = ("efficient_capsnet", "cnn_small")
ROUTINGS = (
    "self_attention",
    "dynamic",
    "leaky",
    "em",
    "variational",
    "attention",
    "inverted",
    "uniform",
    "optimised",
)
SEEDS = (0, 1, 2)
SUBSET = 10_000


class Run(NamedTuple):
    """One training: where its result goes, and its settings."""

    group: str
    name: str
    model: str
    images: int
    seed: int
    options: dict[str, Any]
    limit: int | None = None


def all_runs() -> list[Run]:
    """In the order in which they are worth having."""
    large = [Run("systems", f"{m}-300k-s0", m, LARGE, 0, {}) for m in FAST]
    small = [Run("systems", f"{m}-30k-s0", m, SMALL, 0, {}) for m in (*BOTH, *SLOW)]
    reconstruction = [
        Run(
            "reconstruction",
            f"{m}-{'with' if on else 'without'}-s{s}",
            m,
            LARGE,
            s,
            {} if on else {"decoder": False},
        )
        for s in SEEDS
        for m in ("cnn_small", "base_capsnet")
        for on in (True, False)
    ]
    routings = [
        Run("routings", f"{r}-s{s}", "efficient_capsnet", SMALL, s, {"routing": r}, SUBSET)
        for s in SEEDS
        for r in ROUTINGS
    ]
    return small[:4] + large + reconstruction + routings + small[4:]


def run_one(run: Run, runs: Path, threads: int | None, console: Console) -> None:
    recipe = dataclasses.replace(get_recipe("budget", "mnist", run.model), images=run.images)
    config = Config(
        "mnist",
        run.model,
        recipe,
        seed=run.seed,
        model_options=run.options,
        limit=run.limit,
        threads=threads,
        precision="bf16" if run.group == "systems" else "float32",
    )
    folder = runs / f"{run.group}-{run.name}"
    result = train(config, folder, resume=folder.exists(), callbacks=[Lines(console)])
    write_json(RESULTS / "same_budget" / f"{run.group}-{run.name}.json", {"group": run.group, **result})
    console.print(f"{run.group} {run.name}: {result['test_error_percent']:.2f} %", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--only", choices=("systems", "routings", "reconstruction"))
    parser.add_argument("--model", action="append", help="these models only")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    console = Console()
    for run in all_runs():
        kept = RESULTS / "same_budget" / f"{run.group}-{run.name}.json"
        if (
            kept.exists()
            or options.only not in (None, run.group)
            or run.model not in (options.model or [run.model])
        ):
            continue
        began = time.monotonic()
        try:
            run_one(run, options.runs, options.threads, console)
        except CapsNetError as error:
            console.print(
                f"{run.group} {run.name} failed after {time.monotonic() - began:.0f} s: {error}", markup=False
            )


if __name__ == "__main__":
    main()
