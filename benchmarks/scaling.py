"""What several processes and a Ray cluster bring, and what they cost; docs/scaling.md shows it.

    python benchmarks/scaling.py speed      images/s of one process of 2 threads against two of one thread each
    python benchmarks/scaling.py errors     test errors after a short run by one and by two processes, BatchNorm unsynchronised
    python benchmarks/scaling.py ray        seconds that Ray adds to a trial
    python benchmarks/scaling.py estimate   on paper: 30 seeds of every model on a GPU node and on a CPU cluster

Each writes results/scaling/NAME.json. `speed` and `ray` need the machine alone: see README.md.
"""

import dataclasses
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capsnet import create_model, list_models
from capsnet.config import Config
from capsnet.data import load_dataset
from capsnet.evaluate.cost import count_operations, count_parameters
from capsnet.files import read_json, write_json
from capsnet.machine import load_average
from capsnet.train.prepare import plan_run
from capsnet.train.provenance import provenance
from capsnet.train.recipes import get_recipe
from capsnet.train.settings import make_config
from capsnet.trials.trial_process import CAPSNET, LocalEngine
from capsnet.trials.trials import run_trials

RESULTS = Path(__file__).parent.parent / "results" / "scaling"
BACKWARD = 3  # a training step computes about as much as three forward passes


def origin(threads: int) -> dict[str, Any]:
    """Machine, commit, versions, load and day."""
    return provenance(torch.device("cpu"), threads)


def train(words: list[str], folder: Path, processes: int, threads: int) -> dict[str, Any]:
    """The result of one `capsnet train`, under torchrun for several processes."""
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={processes}",
    ]
    start = [*launcher, "-m", "capsnet"] if processes > 1 else list(CAPSNET)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    command = [*start, "train", *words, "--threads", str(threads), "--out", str(folder)]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return read_json(folder / "result.json")


def some_digits(folder: Path, images: int) -> str:
    """An .npz of MNIST digits with a small test set, so that a run is little but training."""
    mnist = load_dataset("mnist")
    file = folder / "digits.npz"
    np.savez(
        file,
        x_train=mnist.train.images[:images].numpy(),
        y_train=mnist.train.labels[:images].numpy(),
        x_test=mnist.test.images[:100].numpy(),
        y_test=mnist.test.labels[:100].numpy(),
    )
    return str(file)


def measure_speed(repeats: int = 3, images: int = 1280) -> dict[str, Any]:
    """Whole-loop images/s, the forms in turn."""
    forms = {
        "1 process of 1 thread": (1, 1),
        "1 process of 2 threads": (1, 2),
        "2 processes of 1 thread": (2, 1),
    }
    rates: dict[str, list[float]] = {name: [] for name in forms}
    before = load_average()
    with tempfile.TemporaryDirectory() as place:
        words = [some_digits(Path(place), images), "--epochs", "1", "--validation", "0", "--augment", "shift"]
        for turn in range(repeats):
            for name, (processes, threads) in forms.items():
                result = train(words, Path(place) / f"{processes}-{threads}-{turn}", processes, threads)
                rates[name].append(round(result["images_per_second"], 1))
    medians = {name: statistics.median(each) for name, each in rates.items()}
    one = medians["1 process of 1 thread"]
    return {
        "model": "efficient_capsnet",
        "batch_size": 64,
        "images": images,
        "images_per_second": {name: {"median": medians[name], "each": rates[name]} for name in forms},
        "efficiency": {name: round(medians[name] / one / (p * t), 3) for name, (p, t) in forms.items()},
        "load_before": before,
        **origin(2),
    }


def measure_errors(seeds: int = 3) -> dict[str, Any]:
    """Both on the same seeds; 2,000 images, three epochs, the whole test set."""
    words = ["mnist", "--limit", "2000", "--validation", "200", "--epochs", "3"]
    errors: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        for processes in (1, 2):
            for seed in range(seeds):
                folder = Path(place) / f"{processes}-s{seed}"
                result = train([*words, "--seed", str(seed)], folder, processes, 1)
                errors.setdefault(f"{processes} processes", []).append(result["test_error_percent"])
    differences = [b - a for a, b in zip(*errors.values(), strict=True)]
    return {
        "model": "efficient_capsnet",
        "words": words,
        "test_error_percent": errors,
        "mean_difference": round(statistics.mean(differences), 3),
        "deviation_over_seeds": round(statistics.stdev(errors["1 processes"]), 3),
        **origin(1),
    }


def measure_ray(trials: int = 4) -> dict[str, Any]:
    """The same short trials, two at a time, by processes of this machine and by a Ray of this machine."""
    from capsnet.trials.ray_trials import RayEngine

    before = load_average()
    with tempfile.TemporaryDirectory() as place:
        recipe = dataclasses.replace(get_recipe("quick", "mnist", "base_capsnet"), epochs=1, least_steps=0)
        config = Config(some_digits(Path(place), 500), "base_capsnet", recipe, validation=0, threads=1)
        began = time.perf_counter()
        engine = RayEngine()
        started = time.perf_counter() - began
        seconds = {}
        for name, each in {"warm-up": LocalEngine(2), "local": LocalEngine(2), "ray": engine}.items():
            began = time.perf_counter()
            done = run_trials(config, Path(place) / name, range(trials), engine=each)
            seconds[name] = round(time.perf_counter() - began, 2)
            assert all(trial.state == "done" for trial in done)
    return {
        "trials": trials,
        "at_a_time": 2,
        "seconds": seconds,
        "seconds_to_start_ray": round(started, 2),
        "seconds_more_a_trial": round((seconds["ray"] - seconds["local"]) * 2 / trials, 2),
        "load_before": before,
        **origin(1),
    }


def estimate(seeds: int = 30) -> dict[str, Any]:
    """Images of all runs, divided by the measured speed of each system here; operations, by an assumed rate of a GPU."""
    cost = read_json(RESULTS.parent / "benchmarks" / "cost.json")
    measured = {row["name"]: row["training_images_per_second"] / cost["threads"] for row in cost["models"]}
    assumed = {
        "gpu_operations_per_second": 1e13,
        "gpu_seconds_per_step_at_least": 0.005,
        "gpus": 8,
        "nodes": 16,
        "cores_per_node": 32,
    }
    rows = []
    for name in list_models():
        model = create_model(name)
        data = {2: "smallnorb"}.get(model.image_shape[0], "multimnist" if "multimnist" in name else "mnist")
        images = {"mnist": 55_000, "multimnist": 550_000, "smallnorb": 21_870}[data]
        row: dict[str, Any] = {"model": name, "dataset": data, "operations_per_image": BACKWARD * work(model)}
        for kind in ("budget", "paper"):
            recipe = make_config(data, model=name, recipe=kind).recipe
            plan = plan_run(recipe, images)
            seen = plan.images_seen(recipe.batch_size)
            operations = seen * row["operations_per_image"]
            floor = plan.total_steps * assumed["gpu_seconds_per_step_at_least"]
            row[kind] = {
                "images": seen,
                "core_hours": seen / measured[name] / 3600,
                "gpu_hours": max(operations / assumed["gpu_operations_per_second"], floor) / 3600,
            }
        rows.append(row)
    totals = {}
    for kind in ("budget", "paper"):
        core_hours = [seeds * row[kind]["core_hours"] for row in rows]
        gpu_hours = [seeds * row[kind]["gpu_hours"] for row in rows]
        cores = assumed["nodes"] * assumed["cores_per_node"]
        longest = max(row[kind]["core_hours"] for row in rows)
        totals[kind] = {
            "core_hours": sum(core_hours),
            "cluster_hours": max(sum(core_hours) / cores, longest),
            "longest_trial_core_hours": longest,
            "gpu_hours": sum(gpu_hours),
            "gpu_node_hours": math.fsum(gpu_hours) / assumed["gpus"],
        }
    return {
        "seeds": seeds,
        "measured_in": "benchmarks/cost.json",
        "assumed": assumed,
        "models": rows,
        "totals": totals,
        **origin(1),
    }


def work(model: Any) -> int:
    """Operations of one image forward: the encoder's, and two for each weight of a dense decoder."""
    return count_operations(model) + 2 * count_parameters(model.decoder)


if __name__ == "__main__":
    kinds = {"speed": measure_speed, "errors": measure_errors, "ray": measure_ray, "estimate": estimate}
    if len(sys.argv) != 2 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    record = kinds[sys.argv[1]]()
    write_json(RESULTS / f"{sys.argv[1]}.json", record)
    print({key: value for key, value in record.items() if key not in ("models", "versions")})
