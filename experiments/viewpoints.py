"""The fair comparison on ETH-80, new objects and new viewpoints: the list of its trainings, and the table of their results.

    python experiments/viewpoints.py list --results results --out runs/viewpoints.json
    CAPSNET_DATA=DIR python experiments/run_list.py --list runs/viewpoints.json --runs runs --results results
    python experiments/viewpoints.py table results/viewpoints

All systems see the same number of images with the same augmentation, and each is trained twice: every image reconstructed, by
the same dense decoder, and none. A replicate is one draw of the training objects (for the protocol `azimuth`, which tests the
training objects from other sides, one seed). In each replicate the learning rate of each system is chosen first, from the same
`RATES`: trained without one object of each category, the test set unread, the rate with the lowest error on these objects after
the last epoch wins (ties by the loss). With it the system is trained on all training objects, and its last weights are tested.

`list` has the trainings that choose, and those that test wherever the choice has been made: call it again while the queue is
running. `--part ablations` lists what the paper's network for viewpoints assumes, changed one at a time.
"""

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

CHOICE, TEST = "viewpoints_rates", "viewpoints"
IMAGES = 40_000
RATES = (0.0005, 0.0015, 0.005)
REPLICATES = 5
PROTOCOLS = {
    "objects": "objects=new draw={draw}",
    "azimuth": "objects=same views=azimuth",
    "both": "objects=new views=azimuth draw={draw}",
    "elevation": "objects=same views=elevation",
}
SMALLNORB = "efficient_capsnet_smallnorb"
SYSTEMS = {
    name: (name, "") for name in ("efficient_capsnet", SMALLNORB, "base_capsnet", "cnn_small", "cnn_hinton")
}
ABLATIONS = {
    "norm-batch": (SMALLNORB, "norm=batch"),
    "norm-mixed": (SMALLNORB, "norm=mixed"),
    "relu": (SMALLNORB, "activation=relu"),
    "positional": (SMALLNORB, "primary_kernel=6 primary_stride=2"),
}
PARTS = {"systems": SYSTEMS, "ablations": ABLATIONS}


class Trial(NamedTuple):
    """A system in one replicate of a protocol, with all images reconstructed or none."""

    protocol: str
    system: str
    drawn: str
    draw: int

    def entry(self, model: str, options: str, images: int, rate: float, *, test: bool) -> dict[str, Any]:
        """Return the queue's entry for one training."""
        held_out = "--validation 0" if test else f"--hold-out objects --fold {self.draw % 5 + 1}/5 --no-test"
        decoder = "dense" if self.drawn == "all" else "false"
        train = (
            f"eth80 --recipe budget --images {images} --learning-rate {rate} {held_out} --model {model} "
            f"--data-options {PROTOCOLS[self.protocol].format(draw=self.draw)} --model-options {options} decoder={decoder}"
        )
        name = "-".join((self.protocol, self.system, self.drawn, *([] if test else [str(rate)])))
        return {
            "group": TEST if test else CHOICE,
            "name": f"{name}-draw{self.draw}",
            "train": " ".join(train.split()),
            "seeds": [self.draw],
        }


def list_runs(
    part: str, protocols: list[str], replicates: int, images: int, kept: Path
) -> list[dict[str, Any]]:
    """Return the queue's entries, one whole replicate after the other; tests as soon as `kept` has what chooses the rate."""
    entries = []
    for draw in range(replicates):
        for protocol in protocols:
            for system, (model, options) in PARTS[part].items():
                for drawn in ("none", "all"):
                    trial = Trial(protocol, system, drawn, draw)
                    choosing = [trial.entry(model, options, images, rate, test=False) for rate in RATES]
                    files = [kept / CHOICE / f"{entry['name']}-s{draw}.json" for entry in choosing]
                    entries += choosing
                    if all(file.is_file() for file in files):
                        rate = choose([json.loads(file.read_text()) for file in files])
                        entries.append(trial.entry(model, options, images, rate, test=True))
    return entries


def choose(results: list[dict[str, Any]]) -> float:
    """Return the learning rate with the lowest validation error after the last epoch, ties by the loss."""

    def on_validation(result: dict[str, Any]) -> tuple[float, float]:
        last = result["curve"][-1]
        return last["validation_error_percent"], last["validation_loss"]

    return min(results, key=on_validation)["config"]["recipe"]["learning_rate"]


def protocol_of(options: dict[str, Any]) -> str:
    """Return the name of the protocol that a run's data options are."""
    return next(
        name
        for name, words in PROTOCOLS.items()
        if dict(word.split("=") for word in words.split() if "{" not in word)
        == {key: value for key, value in options.items() if key != "draw"}
    )


def system_of(result: dict[str, Any]) -> tuple[str, str]:
    """Return a run's model with its unusual options, and how many images it reconstructs."""
    options = dict(result["config"]["model_options"])
    drawn = "none" if options.pop("decoder") is False else "all"
    return " ".join((result["model"], *(f"{key}={value}" for key, value in sorted(options.items())))), drawn


def make_table(results: list[dict[str, Any]]) -> list[str]:
    """Return a Markdown table, a row for each protocol and system, over all replicates."""
    from capsnet.evaluate.statistics import summarise

    trials: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        trials[protocol_of(result["config"]["dataset_options"]), *system_of(result)].append(result)
    headings = (
        "protocol",
        "system",
        "reconstructed",
        "parameters",
        "learning rates chosen",
        "training error",
    )
    headings += ("test error (95 % interval)", "runs")
    lines = [f"| {' | '.join(headings)} |", "|---|---|---|---:|---|---:|---:|---:|"]
    for (protocol, system, drawn), runs in sorted(trials.items()):
        training, test = (
            summarise([run[f"{part}_error_percent"] for run in runs]) for part in ("train", "test")
        )
        interval = " ({:.1f} to {:.1f})".format(*test["interval"]) if test["interval"] else ""
        rates = Counter(run["config"]["recipe"]["learning_rate"] for run in runs)
        said = ", ".join(f"{rate:g} x {times}" for rate, times in sorted(rates.items()))
        lines.append(
            f"| {protocol} | `{system}` | {drawn} | {runs[0]['encoder_parameters']:,} | {said} | "
            f"{training['mean']:.1f} % | {test['mean']:.1f} %{interval} | {test['n']} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="write the list for experiments/run_list.py")
    listing.add_argument("--out", type=Path, required=True)
    listing.add_argument("--results", type=Path, required=True, help="where the queue keeps results")
    listing.add_argument("--part", choices=PARTS, default="systems")
    listing.add_argument("--protocols", nargs="+", choices=PROTOCOLS, default=["objects", "azimuth"])
    listing.add_argument("--replicates", type=int, default=REPLICATES)
    listing.add_argument("--images", type=int, default=IMAGES, help="images seen in each training")
    table = commands.add_parser("table", help="print the results as a Markdown table")
    table.add_argument("results", type=Path)
    asked = parser.parse_args()
    if asked.command == "table":
        results = [json.loads(path.read_text()) for path in sorted(asked.results.glob("*.json"))]
        print("\n".join(make_table(results)))
        return
    entries = list_runs(asked.part, asked.protocols, asked.replicates, asked.images, asked.results)
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
    asked.out.write_text(f"[\n{lines}\n]\n")
    tests = sum(entry["group"] == TEST for entry in entries)
    print(f"{asked.out}: {len(entries) - tests} trainings that choose, {tests} that test")


if __name__ == "__main__":
    main()
