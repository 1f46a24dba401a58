"""Other people's digits, 100 of each: trained from scratch, and from the bundled MNIST weights, for the same number of steps.

The digits are scikit-learn's `load_digits` (UCI, 1,797 of 8x8 pixels, 16 levels of grey), enlarged and centred as MNIST's are.
The first 100 of each class in the set's order are trained on, the others are the test; nothing is selected. All runs have the
recipe `quick` but for its number of epochs, and the same augmentation. Finished runs are skipped.

    python experiments/finetuning.py --runs runs/finetuning
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import capsnet
from capsnet.files import write_json

RESULTS = Path(__file__).resolve().parent.parent / "results" / "finetuning"
WEIGHTS = "efficient_capsnet.mnist"
EPOCHS = (1, 2, 5)  # of 20 steps
SEEDS = (0, 1, 2)
OF_EACH = 100
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
# The names under which the digits are known: MNIST's own, or others, whose class capsules are then made anew.
NAMES = {"digits": list("0123456789"), "words": WORDS}
STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "scratch": ("digits", {}),
    "mnist": ("digits", {"init": WEIGHTS}),
    "mnist-frozen": ("digits", {"init": WEIGHTS, "freeze": "encoder.blocks"}),
    "mnist-new-classes": ("words", {"init": WEIGHTS}),
}


def enlarge(digit: np.ndarray) -> np.ndarray:
    """Bring an 8x8 digit of levels 0 to 16 into MNIST's form: 20x20 pixels, its centre of mass in the middle of 28x28."""
    small = Image.fromarray((digit * 255 / 16).round().astype(np.uint8))
    large = np.asarray(small.resize((20, 20), Image.Resampling.BICUBIC))
    rows, columns = np.indices(large.shape)
    top, left = (round(13.5 - (large * places).sum() / large.sum()) for places in (rows, columns))
    whole = np.zeros((28, 28), np.uint8)
    top, left = (min(max(edge, 0), 8) for edge in (top, left))
    whole[top : top + 20, left : left + 20] = large
    return whole


def make_arrays(class_names: list[str]) -> dict[str, np.ndarray]:
    """The first digits of each class for training, the others for the test."""
    digits = load_digits()
    images = np.stack([enlarge(digit) for digit in digits.images])
    trains = np.zeros(len(images), bool)
    for label in range(10):
        trains[np.flatnonzero(digits.target == label)[:OF_EACH]] = True
    return {
        "x_train": images[trains],
        "y_train": digits.target[trains],
        "x_test": images[~trains],
        "y_test": digits.target[~trains],
        "class_names": np.array(class_names),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/finetuning"))
    parser.add_argument("--epochs", type=int, nargs="+", default=EPOCHS)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    arrays = {kind: make_arrays(names) for kind, names in NAMES.items()}
    for epochs in options.epochs:
        for seed in SEEDS:
            for start, (kind, settings) in STARTS.items():
                name = f"{start}-{epochs}-s{seed}"
                if (RESULTS / f"{name}.json").exists():
                    continue
                folder = options.runs / name
                run = capsnet.train(
                    arrays[kind],
                    out=folder,
                    resume=folder.exists(),
                    epochs=epochs,
                    seed=seed,
                    validation=0,
                    threads=options.threads,
                    device="cpu",
                    **settings,
                )
                # The digits' file is this script's own; its place says nothing to others.
                config = {**run.result["config"], "dataset": "load_digits"}
                write_json(
                    RESULTS / f"{name}.json", {**run.result, "dataset": "load_digits", "config": config}
                )
                print(f"{name}: {run.result['test_error_percent']:.2f} %", flush=True)


if __name__ == "__main__":
    main()
