"""The fair comparison on ETH-80, new objects and new viewpoints: the list of its trainings, and the table of their results.

    python experiments/viewpoints.py list --out runs/viewpoints.json
    CAPSNET_DATA=DIR python experiments/queue.py --list runs/viewpoints.json --runs runs --results results
    python experiments/viewpoints.py table results/viewpoints

All systems see the same number of images with the same augmentation, and each is trained twice: every image reconstructed, by
the same dense decoder, and none. A replicate is one draw of the training objects (for the protocol `azimuth`, which tests the
training objects from other sides, one fold); its seed is the same number. In it each system is trained with each of `RATES`;
one object of each category is held out, the checkpoint with the lowest error on these is kept and tested once, and of the
rates the one with the lowest validation error (ties by the loss) counts. The others' test errors are not used.

`--part ablations` lists what the paper's network for viewpoints assumes, changed one at a time.
"""

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

GROUP = "viewpoints"
IMAGES = 60_000
RATES = ("0.0005", "0.0015", "0.005")
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


def list_runs(part: str, protocols: list[str], replicates: int, images: int) -> list[dict[str, Any]]:
    """Return an entry of the queue for each training, one whole replicate after the other."""
    entries = []
    for draw in range(replicates):
        for protocol in protocols:
            data = PROTOCOLS[protocol].format(draw=draw)
            common = f"eth80 --recipe budget --images {images} --hold-out objects --fold {draw % 5 + 1}/5 --data-options {data}"
            for system, (model, options) in PARTS[part].items():
                for plain in (True, False):
                    decoder = "false" if plain else "dense"
                    asked = f"--model {model} --model-options {options} decoder={decoder}"
                    for rate in RATES:
                        name = "-".join(
                            (protocol, system, "plain" if plain else "drawn", rate, f"draw{draw}")
                        )
                        train = " ".join(f"{common} {asked} --learning-rate {rate}".split())
                        entries.append({"group": GROUP, "name": name, "train": train, "seeds": [draw]})
    return entries


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


def choose(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the run with the lowest validation error, ties by the loss, whatever its test error is."""

    def on_validation(result: dict[str, Any]) -> tuple[float, float]:
        row = result["curve"][result["selected"]["epoch"] - 1]
        return row["validation_error_percent"], row["validation_loss"]

    return min(results, key=on_validation)


def make_table(results: list[dict[str, Any]]) -> list[str]:
    """Return a Markdown table, a row for each protocol and system, from all replicates that have every learning rate."""
    from capsnet.evaluate.statistics import summarise

    trials: dict[tuple[str, str, str], dict[int, list[dict[str, Any]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        key = protocol_of(result["config"]["dataset_options"]), *system_of(result)
        trials[key][result["seed"]].append(result)
    headings = ("protocol", "system", "reconstructed", "parameters", "learning rates chosen")
    headings += ("validation error", "test error (95 % interval)", "runs")
    lines = [f"| {' | '.join(headings)} |", "|---|---|---|---:|---|---:|---:|---:|"]
    for (protocol, system, drawn), replicates in sorted(trials.items()):
        chosen = [choose(runs) for runs in replicates.values() if len(runs) == len(RATES)]
        if not chosen:
            continue
        validation = summarise([run["validation_error_percent"] for run in chosen])
        test = summarise([run["test_error_percent"] for run in chosen])
        interval = " ({:.1f} to {:.1f})".format(*test["interval"]) if test["interval"] else ""
        rates = Counter(run["config"]["recipe"]["learning_rate"] for run in chosen)
        said = ", ".join(f"{rate:g} x {times}" for rate, times in sorted(rates.items()))
        lines.append(
            f"| {protocol} | `{system}` | {drawn} | {chosen[0]['encoder_parameters']:,} | {said} | "
            f"{validation['mean']:.1f} % | {test['mean']:.1f} %{interval} | {test['n']} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="write the list for experiments/queue.py")
    listing.add_argument("--out", type=Path, required=True)
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
    entries = list_runs(asked.part, asked.protocols, asked.replicates, asked.images)
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
    asked.out.write_text(f"[\n{lines}\n]\n")
    print(f"{asked.out}: {len(entries)} trainings of {asked.images:,} images")


if __name__ == "__main__":
    main()
