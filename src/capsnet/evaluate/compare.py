"""Two systems compared: paired over the seeds that both were trained from, and image by image (McNemar).

Each is the folder of one run or of `capsnet trials`. Counts of images summed over seeds are only descriptive, not a test,
since the seeds share their images.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capsnet.errors import CapsNetError
from capsnet.evaluate.predictions import read_predictions
from capsnet.evaluate.statistics import mcnemar_p, sign_flip_p, summarise
from capsnet.files import read_json

RESULT = "result.json"
SUB_FOLDER = re.compile(r"s\d+")


def finished_runs(folder: Path) -> dict[int, Path]:
    """Find the finished runs of a run folder (one) or of a trials folder (its `sSEED`), by seed."""
    if (folder / RESULT).is_file():
        return {int(read_json(folder / RESULT)["seed"]): folder}
    if not folder.is_dir():
        raise CapsNetError(f"There is no folder '{folder}'.")
    found = (p for p in folder.iterdir() if SUB_FOLDER.fullmatch(p.name) and (p / RESULT).is_file())
    runs = {int(path.name[1:]): path for path in found}
    if not runs:
        raise CapsNetError(f"'{folder}' holds no finished run: neither {RESULT} nor sSEED/{RESULT}.")
    return dict(sorted(runs.items()))


def error_keys(result: Mapping[str, Any]) -> list[str]:
    """List the test errors of a result: two for MultiMNIST, none for a run that left the test set unread."""
    errors = (key for key in result if key.startswith("test_") and key.endswith("error_percent"))
    return [key for key in errors if result[key] is not None]


def compare(first: Path, second: Path) -> dict[str, Any]:
    """Compare two systems; differences are first minus second, so below zero the first has fewer errors."""
    a, b = finished_runs(first), finished_runs(second)
    pairs = [(seed, a[seed], b[seed]) for seed in a if seed in b]
    if len(a) == len(b) == 1:  # two single runs are a pair whatever their seeds
        pairs = [(next(iter(a)), next(iter(a.values())), next(iter(b.values())))]
    if not pairs:
        raise CapsNetError(f"'{first}' and '{second}' have no seed in common, so nothing can be paired.")
    results = [(read_json(one / RESULT), read_json(two / RESULT)) for _, one, two in pairs]
    datasets = {result["dataset"] for both in results for result in both}
    if len(datasets) > 1:
        raise CapsNetError(f"These runs are of different data sets: {', '.join(sorted(datasets))}.")
    keys = [key for key in error_keys(results[0][0]) if key in error_keys(results[0][1])]
    errors = {}
    for key in keys:
        differences = [one[key] - two[key] for one, two in results]
        errors[key] = {
            "first": summarise([one[key] for one, _ in results]),
            "second": summarise([two[key] for _, two in results]),
            "difference": summarise(differences),
            "p": sign_flip_p(differences) if len(differences) > 1 else None,
        }
    return {
        "dataset": datasets.pop(),
        "first": str(first),
        "second": str(second),
        "seeds": [seed for seed, _, _ in pairs],
        "errors": errors,
        "mcnemar": [mcnemar(seed, one, two) for seed, one, two in pairs],
    }


def mcnemar(seed: int, first: Path, second: Path) -> dict[str, Any]:
    """Count the images that only one of two networks gets wrong."""
    one, two = read_predictions(first), read_predictions(second)
    if not one.same_images(two):
        raise CapsNetError(f"'{first}' and '{second}' were not tested on the same images.")
    a, b = one.wrong(), two.wrong()
    only_first, only_second = int((a & ~b).sum()), int((b & ~a).sum())
    return {
        "seed": seed,
        "images": len(a),
        "both_wrong": int((a & b).sum()),
        "only_first_wrong": only_first,
        "only_second_wrong": only_second,
        "p": mcnemar_p(only_first, only_second),
    }
