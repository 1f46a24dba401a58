"""All routings in the same Efficient-CapsNet with the same number of images seen: the list of the trainings, and their table.

    python experiments/routings.py list --results results --out runs/routings.json
    CAPSNET_DATA=DIR python experiments/run_list.py --list runs/routings.json --runs runs --results results
    python experiments/routings.py table results/routings

On MNIST, on generated affNIST-style digits (trained on digits that are only moved) and on new objects of ETH-80. The learning
rate of each routing on each data set is chosen first, from the same `RATES`: with seed 0, without the writers or objects that
are held out and with the test set unread, the rate with the lowest error after the last epoch wins (ties by the loss). With it
three seeds are trained on all training images, and their last weights are tested. Every image is reconstructed.

`list` has the trainings that choose, and those that test wherever the choice has been made: call it again while the queue is
running.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from viewpoints import RATES, choose

CHOICE, TEST = "routings_rates", "routings"
IMAGES = 60_000
SEEDS = (0, 1, 2)
ROUTINGS = (
    "self_attention",
    "uniform",
    "dynamic",
    "self_routing",
    "heinsen",
    "orthogonal_sparse",
    "inverted",
    "optimised",
    "leaky",
    "attention",
    "em",
    "variational",
)
# The data, and what is held out while the rate is chosen.
DATA = {
    "mnist": ("mnist", "--hold-out writers --fold 1/5"),
    "affnist": ("affnist", "--validation 10000"),
    "eth80": ("eth80 --data-options objects=new draw={seed}", "--hold-out objects --fold 1/5"),
}


def entry(data: str, routing: str, rate: float, seed: int, images: int, *, test: bool) -> dict[str, Any]:
    """Return the queue's entry for one training."""
    source, held_out = DATA[data]
    how = "--validation 0" if test else f"{held_out} --no-test"
    train = (
        f"{source.format(seed=seed)} --recipe budget --images {images} --learning-rate {rate} {how} "
        f"--model efficient_capsnet --model-options routing={routing} decoder=dense"
    )
    name = f"{data}-{routing}" + ("" if test else f"-{rate}")
    return {"group": TEST if test else CHOICE, "name": name, "train": train, "seeds": [seed]}


def list_runs(images: int, kept: Path) -> list[dict[str, Any]]:
    """Return the queue's entries, a whole data set after the other; tests as soon as `kept` has what chooses the rate."""
    entries = []
    for data in DATA:
        for routing in ROUTINGS:
            choosing = [entry(data, routing, rate, 0, images, test=False) for rate in RATES]
            files = [kept / CHOICE / f"{run['name']}-s0.json" for run in choosing]
            entries += choosing
            if all(file.is_file() for file in files):
                rate = choose([json.loads(file.read_text()) for file in files])
                entries += [entry(data, routing, rate, seed, images, test=True) for seed in SEEDS]
    return entries


def make_table(results: list[dict[str, Any]]) -> list[str]:
    """Return a Markdown table: a row for each routing, a column for each data set, mean and every seed's test error."""
    runs: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for result in sorted(results, key=lambda result: result["seed"]):
        runs[result["config"]["model_options"]["routing"]][result["dataset"]].append(result)
    lines = [f"| routing | parameters | {' | '.join(DATA)} |", f"|---|---:|{'---|' * len(DATA)}"]
    for routing in (name for name in ROUTINGS if name in runs):
        cells = []
        for data in DATA:
            errors = [run["test_error_percent"] for run in runs[routing][data]]
            each = ", ".join(f"{error:.2f}" for error in errors)
            cells.append(f"{sum(errors) / len(errors):.2f} % ({each})" if errors else "-")
        first = next(iter(runs[routing].values()))[0]
        lines.append(f"| {routing} | {first['encoder_parameters']:,} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="write the list for experiments/run_list.py")
    listing.add_argument("--out", type=Path, required=True)
    listing.add_argument("--results", type=Path, required=True, help="where the queue keeps results")
    listing.add_argument("--images", type=int, default=IMAGES, help="images seen in each training")
    table = commands.add_parser("table", help="print the results as a Markdown table")
    table.add_argument("results", type=Path)
    asked = parser.parse_args()
    if asked.command == "table":
        results = [json.loads(path.read_text()) for path in sorted(asked.results.glob("*.json"))]
        print("\n".join(make_table(results)))
        return
    entries = list_runs(asked.images, asked.results)
    lines = ",\n".join(f"  {json.dumps(line)}" for line in entries)
    asked.out.write_text(f"[\n{lines}\n]\n")
    tests = sum(line["group"] == TEST for line in entries)
    print(f"{asked.out}: {len(entries) - tests} trainings that choose, {tests} that test")


if __name__ == "__main__":
    main()
