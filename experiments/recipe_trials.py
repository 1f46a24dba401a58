"""Short trainings of Efficient-CapsNet that differ in one setting each, for choosing the recipe `fast`: on MNIST and, those
whose names begin with `pairs`, on MultiMNIST.

Every trial trains on 50,000 images and is judged on the other 10,000 of the training set (one pair each), the same for all
trials; the test set is not read. A trial's last epoch counts, by its loss first and its errors second. Each goes to
results/recipe_trials as it ends; docs/records.md says what came of it.

    python experiments/recipe_trials.py --runs ../runs/trials [--threads N] [--precision float32] NAME [NAME ...]
"""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from rich.console import Console

from capsnet.config import Config, Recipe
from capsnet.files import write_json
from capsnet.train.loop import train
from capsnet.train.progress import Lines

RESULTS = Path(__file__).resolve().parent.parent / "results" / "recipe_trials"
HELD_OUT = 10_000
BASE = Recipe(
    name="trial",
    epochs=5,
    batch_size=64,
    learning_rate=3e-3,
    schedule="cosine",
    warmup=0.1,
    average=0.999,
    plain_statistics=5000,
)
HARDEST = {"augmentation": "handwriting", "batch_size": 128, "learn_from": 0.99}
ONE_BY_ONE: dict[str, dict[str, Any]] = {
    "handwriting": {"augmentation": "handwriting"},
    "hardest": HARDEST,
    "hardest-strong": HARDEST | {"augmentation": "handwriting_strong"},
    "hardest-rate-0.006": HARDEST | {"learning_rate": 6e-3},
    "hardest-batch-64": HARDEST | {"batch_size": 64},
    "hardest-batch-64-20-epochs": HARDEST | {"batch_size": 64, "epochs": 20},
    "hardest-batch-64-gentle-20-epochs": HARDEST
    | {"batch_size": 64, "epochs": 20, "augmentation": "handwriting_gentle"},
}
WRITERS = {"batch_size": 64, "learn_from": 0.99, "epochs": 10}
BOLD_MUON = WRITERS | {
    "augmentation": "handwriting_bold",
    "learn_from": 1.0,
    "weight_decay": 0.05,
    "optimizer": "muon",
}
LIVELY_THEN_BOLD = BOLD_MUON | {
    "augmentation": "handwriting_lively",
    "late_augmentation": "handwriting_bold",
}
BY_WRITER: dict[str, dict[str, Any]] = {
    "writers-byerly": WRITERS | {"augmentation": "byerly"},
    "writers-gentle": WRITERS | {"augmentation": "handwriting_gentle"},
    "writers-gentle-all-images-weight-decay-20-epochs": WRITERS
    | {"augmentation": "handwriting_gentle", "learn_from": 1.0, "weight_decay": 0.05, "epochs": 20},
    "writers-gentle-all-images-weight-decay-0.2": WRITERS
    | {"augmentation": "handwriting_gentle", "learn_from": 1.0, "weight_decay": 0.2},
    "writers-handwriting": WRITERS | {"augmentation": "handwriting"},
    "writers-affine": WRITERS | {"augmentation": "handwriting_affine"},
    "writers-gentle-all-images": WRITERS | {"augmentation": "handwriting_gentle", "learn_from": 1.0},
    "writers-gentle-all-images-muon": WRITERS
    | {"augmentation": "handwriting_gentle", "learn_from": 1.0, "optimizer": "muon"},
    "writers-gentle-all-images-muon-20-epochs": WRITERS
    | {"augmentation": "handwriting_gentle", "learn_from": 1.0, "optimizer": "muon", "epochs": 20},
    "writers-gentle-all-images-muon-rate-0.009": WRITERS
    | {
        "augmentation": "handwriting_gentle",
        "learn_from": 1.0,
        "weight_decay": 0.05,
        "optimizer": "muon",
        "learning_rate": 9e-3,
    },
    "writers-bold-all-images-muon": BOLD_MUON,
    "writers-bold-all-images-muon-20-epochs": BOLD_MUON | {"epochs": 20},
    "writers-bold-all-images-muon-drawn-2": BOLD_MUON | {"reconstruction_weight": 2.0},
    "writers-lively-all-images-muon-rate-0.009": BOLD_MUON
    | {"augmentation": "handwriting_lively", "learning_rate": 9e-3},
    "writers-lively-then-bold": LIVELY_THEN_BOLD,
    "writers-lively-then-bold-20-epochs": LIVELY_THEN_BOLD | {"epochs": 20},
    "writers-lively-then-bold-20-epochs-late": LIVELY_THEN_BOLD | {"epochs": 20, "late_from": 0.8},
    "writers-lively-then-bold-20-epochs-rate-0.006": LIVELY_THEN_BOLD | {"epochs": 20, "learning_rate": 6e-3},
    "writers-handwriting-all-images-muon": WRITERS
    | {"augmentation": "handwriting", "learn_from": 1.0, "optimizer": "muon"},
    "writers-gentle-weight-decay": WRITERS | {"augmentation": "handwriting_gentle", "weight_decay": 0.05},
    "writers-strong": WRITERS | {"augmentation": "handwriting_strong"},
}
PAIRS = {"batch_size": 64, "images": 100_000, "epochs": 1}
PAIRS_MUON = PAIRS | {"reconstruct_fraction": 0.25, "optimizer": "muon", "learning_rate": 12e-3}
OF_PAIRS: dict[str, dict[str, Any]] = {
    "pairs-quarter-drawn": PAIRS | {"reconstruct_fraction": 0.25},
    "pairs-batch-32": PAIRS | {"reconstruct_fraction": 0.25, "batch_size": 32},
    "pairs-muon": PAIRS | {"reconstruct_fraction": 0.25, "optimizer": "muon"},
    "pairs-muon-rate-0.012": PAIRS_MUON,
    "pairs-muon-rate-0.024": PAIRS_MUON | {"learning_rate": 24e-3},
    "pairs-muon-rate-0.006-kernels-20": PAIRS_MUON | {"learning_rate": 6e-3, "kernel_rate": 20.0},
    "pairs-muon-batch-32": PAIRS_MUON | {"batch_size": 32},
    "pairs-muon-400k": PAIRS_MUON | {"images": 400_000},
    "pairs-muon-1m": PAIRS_MUON | {"images": 1_000_000},
    "pairs-muon-1m-weight-decay-0.01": PAIRS_MUON | {"images": 1_000_000, "weight_decay": 0.01},
    "pairs-muon-all-drawn": PAIRS_MUON | {"reconstruct_fraction": 1.0},
    "pairs-muon-drawn-2": PAIRS_MUON | {"reconstruction_weight": 2.0},
    "pairs-muon-rate-0.024-kernels-5": PAIRS_MUON | {"learning_rate": 24e-3, "kernel_rate": 5.0},
    "pairs-muon-rate-0.048-kernels-2": PAIRS_MUON | {"learning_rate": 48e-3, "kernel_rate": 2.0},
    "pairs-muon-undrawn": PAIRS_MUON | {"reconstruction_weight": 0.0},
    "pairs-rate-0.006": PAIRS | {"reconstruct_fraction": 0.25, "learning_rate": 6e-3},
}
TRIALS = ONE_BY_ONE | BY_WRITER | OF_PAIRS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=TRIALS, metavar="NAME")
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--precision", choices=("float32", "bf16"), default="bf16")
    options = parser.parse_args()
    console = Console()
    for name in options.names:
        pairs = name in OF_PAIRS
        config = Config(
            "multimnist" if pairs else "mnist",
            "efficient_capsnet_multimnist" if pairs else "efficient_capsnet",
            dataclasses.replace(BASE, **TRIALS[name]),
            validation=HELD_OUT,
            hold_out="images" if name in ONE_BY_ONE else "stretches",
            threads=options.threads,
            precision=options.precision,
            test=False,
        )
        folder = options.runs / name
        result = train(config, folder, resume=folder.exists(), callbacks=[Lines(console)])
        write_json(RESULTS / f"{name}.json", {"trial": name, **result})


if __name__ == "__main__":
    main()
