"""ETH-80 as a folder of photographs: the first five objects of each category in `train/`, the other five in `test/`.

    python experiments/eth80_folder.py folder path/to/eth80 --out photos/eth80
    python experiments/eth80_folder.py list --photos photos/eth80 --results results --out runs/eth80_folder.json
    python experiments/run_list.py --list runs/eth80_folder.json --runs runs --results results
    python experiments/eth80_folder.py table results

A candidate is a system with its recipe and augmentation. Each trains five times, always without one object of each category
(`--group-by`, `--fold`), and the candidate with the lowest mean validation error is tested: trained on all five objects, its
last weights read the test objects once. The networks of `BASELINES` are tested beside it, whatever their validation says.
The weights that a candidate starts from were trained on CIFAR-10, by the list of long trainings, in the same folder of runs.
"""

import argparse
import json
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

CHOICE, TEST = "eth80_choice", "eth80_folder"
FOLDS = 5
IMAGES = 24_000
SEEDS = range(5)
OBJECT = r"([a-z]+)(\d+)-"
TURNS = "shift,rotate,zoom,flip"
DEEP = "--model residual_capsnet --recipe photos"
PRETRAINED = "--init cifar10/residual_capsnet-s0/last"
CANDIDATES = {
    "efficient_capsnet": f"--model efficient_capsnet --augment {TURNS}",
    "residual": f"{DEEP} --augment {TURNS}",
    "residual-jitter": f"{DEEP} --augment {TURNS},jitter",
    "residual-pretrained": f"{DEEP} {PRETRAINED} --augment {TURNS}",
    "residual-pretrained-jitter": f"{DEEP} {PRETRAINED} --augment {TURNS},jitter",
}
BASELINES = ("efficient_capsnet",)


def make_folder(source: Path, out: Path) -> int:
    """Copy the photographs to OUT/train/CATEGORY and OUT/test/CATEGORY; return how many there are."""
    photographs = [path for path in sorted(source.rglob("*.png")) if path.parent.name != "maps"]
    objects = {path: re.match(OBJECT, path.name).groups() for path in photographs}
    numbers: dict[str, set[int]] = {}
    for category, number in objects.values():
        numbers.setdefault(category, set()).add(int(number))
    for path, (category, number) in objects.items():
        first_five = sorted(numbers[category])[:5]  # the cars' numbers have gaps
        target = out / ("train" if int(number) in first_five else "test") / category / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return len(photographs)


def train(photos: str, candidate: str, rest: str) -> str:
    """Return the arguments of one `capsnet train`."""
    shared = f"--image-size 48 --group-by {OBJECT} --images {IMAGES} --precision bf16"
    return f"{photos} {shared} {CANDIDATES[candidate]} {rest}"


def validation_error(result: dict[str, Any]) -> float:
    """Return the error on held-out objects after the last epoch, of the weights that a test would read."""
    return result["curve"][-1]["validation_error_percent"]


def read(results: Path, group: str, name: str) -> list[dict[str, Any]]:
    """Return the results of a candidate's runs that have ended."""
    paths = sorted((results / group).glob(f"{name}-s*.json"))
    paths += sorted((results / group).glob(f"{name}-fold?-s*.json"))
    return [json.loads(path.read_text()) for path in paths]


def best_candidate(results: Path) -> str | None:
    """Return the candidate with the lowest mean validation error, once all have all their folds."""
    errors = {name: [validation_error(run) for run in read(results, CHOICE, name)] for name in CANDIDATES}
    if any(len(found) < FOLDS for found in errors.values()):
        return None
    return min(errors, key=lambda name: statistics.mean(errors[name]))


def list_runs(photos: str, results: Path) -> list[dict[str, Any]]:
    """Return the entries for `run_list.py`: those that choose, then those that test once the choice is made."""
    entries = [
        {
            "group": CHOICE,
            "name": f"{name}-fold{fold}",
            "train": train(photos, name, f"--fold {fold}/{FOLDS} --no-test"),
            "seeds": [0],
        }
        for name in CANDIDATES
        for fold in range(1, FOLDS + 1)
    ]
    best = best_candidate(results)
    if best is not None:
        entries += [
            {"group": TEST, "name": name, "train": train(photos, name, "--validation 0"), "seeds": [*SEEDS]}
            for name in dict.fromkeys((best, *BASELINES))
        ]
    return entries


def make_table(results: Path) -> list[str]:
    """Return a Markdown table: each candidate's validation errors, fold by fold, and the test errors of those tested."""
    lines = [
        "| candidate | validation, mean | each fold | test, mean | each seed |",
        "|---|---:|---|---:|---|",
    ]
    for name in CANDIDATES:
        cells = []
        for group, error in ((CHOICE, validation_error), (TEST, lambda run: run["test_error_percent"])):
            found = [error(run) for run in read(results, group, name)]
            cells += [
                f"{statistics.mean(found):.1f} %" if found else "",
                ", ".join(f"{x:.1f}" for x in found),
            ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("folder", help="make the folder of photographs")
    making.add_argument("source", type=Path, help="ETH-80 in its original layout")
    making.add_argument("--out", type=Path, required=True)
    listing = commands.add_parser("list", help="write the list for experiments/run_list.py")
    listing.add_argument("--photos", required=True, help="the folder that `folder` made")
    listing.add_argument("--results", type=Path, required=True, help="where the queue keeps results")
    listing.add_argument("--out", type=Path, required=True)
    table = commands.add_parser("table", help="print the results as a Markdown table")
    table.add_argument("results", type=Path)
    asked = parser.parse_args()
    if asked.command == "folder":
        print(f"{asked.out}: {make_folder(asked.source, asked.out)} photographs")
    elif asked.command == "list":
        entries = list_runs(asked.photos, asked.results)
        asked.out.write_text(json.dumps(entries, indent=1) + "\n")
        print(f"{asked.out}: {sum(len(entry['seeds']) for entry in entries)} trainings")
    else:
        print("\n".join(make_table(asked.results)))


if __name__ == "__main__":
    main()
