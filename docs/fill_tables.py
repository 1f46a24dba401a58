"""Write the tables of the README and the docs from results/, and code from the package, between markers.

`--check` only says what is stale.
"""

import ast
import json
import re
import statistics
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import code_map
import reliability_tables
import routing_tables
import unknown_tables

from capsnet.report import paper

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "experiments"))
import eth80_folder  # noqa: E402

REPORTED = {("mnist", row.model): row.reported for row in paper.MNIST if row.decoder is not False} | {
    ("multimnist", "efficient_capsnet_multimnist"): paper.MULTIMNIST
}
REPORTED_ENSEMBLES = {"mnist": paper.ENSEMBLES[-1][-1], "multimnist": paper.MULTIMNIST_ENSEMBLE}

# Settings of single trials, with the values that stand for the other trials' not having them.
UNSET = {
    "sharpness": 0.0,
    "sharpness_from": 0.5,
    "dropout": 0.0,
    "kernel_rate": 10.0,
    "keep_norms": False,
    "primary_rate": 1.0,
    "late_augmentation": None,
    "late_from": 0.6,
    "last_augmentation": None,
    "last_from": 1.0,
    "shift": None,
    "trusted_loss": None,
    "loss": "own",
}


def read_results(folder: str) -> list[dict[str, Any]]:
    """All runs kept in a folder of results/."""
    return [json.loads(path.read_text()) for path in sorted((ROOT / "results" / folder).glob("*.json"))]


def read_ensemble(folder: str) -> dict[str, Any] | None:
    """The ensemble of the runs in a folder of results/, where there is one: of results/history/NAME, its own is there too."""
    kept = ROOT / "results" / folder
    path = kept.parent / "ensembles" / f"{kept.name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def percent(reported: str | float | None) -> str:
    """A figure of the paper's, or that there is none."""
    return "-" if reported is None else f"{reported} %"


def ours(runs: list[dict[str, Any]], key: str) -> str:
    """The mean error; of several seeds also its deviation and the lowest and the highest."""
    errors = [run[key] for run in runs]
    if len(errors) < 2:
        return f"{errors[0]:.2f} %"
    return f"{statistics.mean(errors):.3f} ± {statistics.stdev(errors):.3f} % ({min(errors):.2f} to {max(errors):.2f})"


def length(run: dict[str, Any]) -> str:
    """How long a run is, in whole epochs or else in images."""
    if not run["config"]["recipe"].get("images"):
        return str(run["epochs"])
    return f"{run['images_seen']:,} {'more ' if run['config'].get('init') else ''}images"


def results_table() -> str:
    """Return one row per data set, model and recipe over all its seeds, and one per ensemble."""
    lines = [
        "| data | network | recipe | parameters | test error, reported | test error, ours | seeds | epochs | min per seed |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]

    def key(run: dict[str, Any]) -> tuple[str, str]:
        return run["model"], run["recipe"]

    machines = set()
    for dataset in ("mnist", "multimnist", "toyviews"):
        for (model, recipe), group in groupby(sorted(read_results(dataset), key=key), key=key):
            runs = list(group)
            machines |= {
                f"{r['machine']}, {r['threads']} thread{'s' * (r['threads'] > 1)} per run, {r['date'][:10]}"
                for r in runs
            }
            errors = [
                ours(runs, name) + ("" if name == "test_error_percent" else f" {name.split('_')[1]}")
                for name in ("test_error_percent", "test_pair_error_percent", "test_digit_error_percent")
                if name in runs[0]
            ]
            minutes = statistics.mean(run["seconds"] for run in runs) / 60
            lines.append(
                f"| {dataset} | `{model}` | {recipe} | {runs[0]['encoder_parameters']:,} | "
                f"{percent(REPORTED.get((dataset, model)))} | {', '.join(errors)} | {len(runs)} | {length(runs[0])} | "
                f"{minutes:.0f} |"
            )
        if record := read_ensemble(dataset):
            lines.append(
                f"| {dataset} | ensemble of all {len(record['members'])} | fast | | "
                f"{percent(REPORTED_ENSEMBLES.get(dataset))} | {', '.join(named_errors(record['ensemble']))} | | | |"
            )
    lines += ["", f"Taken on {'; '.join(sorted(machines))}."]
    return "\n".join(lines)


def headline_table() -> str:
    """The few results of the README: MNIST by seeds and ensemble, pairs of the longest training, CIFAR-10 where it was run."""

    def row(
        data: str, network: str, parameters: int | None, reported: object, errors: str, seeds: object
    ) -> str:
        size = f"{parameters:,}" if parameters else ""
        return f"| {data} | {network} | {size} | {reported} | {errors} | {seeds} |"

    lines = [
        "| data | network | parameters | test error, reported | test error, ours | seeds |",
        "|---|---|---:|---:|---:|---:|",
    ]
    fast = [run for run in read_results("mnist") if run["recipe"] == "fast"]
    reported = percent(REPORTED["mnist", "efficient_capsnet"])
    lines.append(
        row("MNIST", "Efficient-CapsNet, `fast`", fast[0]["encoder_parameters"], reported,
            over_seeds(fast), len(fast))
    )  # fmt: skip
    if together := read_ensemble("mnist"):
        errors = ", ".join(named_errors(together["ensemble"]))
        members = len(together["members"])
        lines.append(
            row(
                "MNIST",
                "all of them, as an ensemble",
                None,
                percent(REPORTED_ENSEMBLES["mnist"]),
                errors,
                members,
            )
        )
    pairs = [run for run in read_results("multimnist") if run["recipe"] == "longest"]
    if pairs:
        errors = "; ".join(", ".join(named_errors(run)) for run in pairs)
        reported = percent(REPORTED["multimnist", "efficient_capsnet_multimnist"])
        lines.append(
            row(
                "MultiMNIST",
                "Efficient-CapsNet, `longest`",
                pairs[0]["encoder_parameters"],
                reported,
                errors,
                len(pairs),
            )
        )
    photographs = sorted(read_results("cifar10"), key=lambda run: (run["model"], run["seed"]))
    for model, group in groupby(photographs, key=lambda run: run["model"]):
        runs = list(group)
        reported = (
            f"{100 - CIFAR10_REPORTED['Efficient-CapsNet']:.1f} %" if model == "efficient_capsnet" else "-"
        )
        lines.append(
            row(
                "CIFAR-10",
                f"`{model}`, `photos`",
                runs[0]["encoder_parameters"],
                reported,
                over_seeds(runs),
                len(runs),
            )
        )
    return "\n".join(lines)


def trials_table(base_name: str) -> str:
    """A row a trial of the recipe's search on the data of `base_name`, with images held out as there, the lowest validation
    loss first."""
    lines = [
        f"| trial | differs from `{base_name}` in | epochs | validation loss | errors of 10,000 | training error | minutes |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]

    def kind(run: dict[str, Any]) -> tuple[str, str]:
        return run["dataset"], run["config"].get("hold_out", "images")

    runs = {run["trial"]: run for run in read_results("recipe_trials")}
    runs = {name: run for name, run in runs.items() if kind(run) == kind(runs[base_name])}
    base = runs[base_name]["config"]["recipe"]
    for name, run in sorted(runs.items(), key=lambda item: item[1]["curve"][-1]["validation_loss"]):
        recipe, curve = run["config"]["recipe"], run["curve"]
        settings = recipe | run["config"]["model_options"]
        changed = ", ".join(
            f"{k} {v}" for k, v in settings.items() if v != base.get(k, UNSET.get(k)) and k != "name"
        )
        last = curve[-1]
        training = run.get("train_error_percent", run.get("train_pair_error_percent"))
        lines.append(
            f"| {name} | {changed or '-'} | {last['epoch']} | {last['validation_loss']:.5f} | "
            f"{round(100 * last['validation_error_percent'])} | {training:.2f} % | "
            f"{run['seconds'] / 60:.0f} |"
        )
    return "\n".join(lines)


def seeds_table(folder: str, recipe: str = "fast") -> str:
    """Every seed of a recipe that is kept in a folder of results/, and all seeds of `fast` as an ensemble."""
    lines = [
        "| seed | images seen | test error | test loss | minutes | commit |",
        "|---:|---:|---:|---:|---:|---|",
    ]
    lines += [
        f"| {r['seed']} | {r['images_seen']:,} | {', '.join(named_errors(r))} | {r['test_loss']:.5f} | "
        f"{r['seconds'] / 60:.0f} | {r['commit'][:8]} |"
        for r in read_results(folder)
        if r["recipe"] == recipe
    ]
    if recipe == "fast" and (record := read_ensemble(folder)):
        lines.append(f"| all, as an ensemble | | {', '.join(named_errors(record['ensemble']))} | | | |")
    return "\n".join(lines)


def continued_table() -> str:
    """The short runs that asked how to go on from trained weights."""
    lines = [
        "| run | batch | pairs | training loss, last epoch | errors on training pairs |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {run['trial']} | {run['batch_size']} | {run['images_seen']:,} | {run['curve'][-1]['loss']:.5f} | "
        f"{run['train_pair_error_percent']:.2f} % |"
        for run in read_results("continued_pairs")
    ]
    return "\n".join(lines)


def named_errors(run: dict[str, Any]) -> list[str]:
    """The test errors of a run; of pairs, each with its name."""
    return [
        f"{run[key]:.2f} % {key.removeprefix('test_').removesuffix('error_percent').strip('_')}".strip()
        for key in run
        if key.startswith("test_") and key.endswith("error_percent")
    ]


def short_table() -> str:
    """One short run on each kind of data."""
    lines = [
        "| data | network | image | images seen | test error | images/s | threads, load |",
        "|---|---|---|---:|---|---:|---|",
    ]
    for r in read_results("short"):
        shape = {"multimnist": "1x36x36", "toyviews": "2x48x48", "shapes": "3x64x64"}[r["dataset"]]
        lines.append(
            f"| {r['dataset']} | `{r['model']}` | {shape} | {r['images_seen']:,} | {', '.join(named_errors(r))} | "
            f"{r['images_per_second']:.0f} | {r['threads']}, {r['load'][0]:.1f} |"
        )
    return "\n".join(lines)


def times_table() -> str:
    """What each whole run took."""
    lines = [
        "| data | model | recipe | seed | epochs | images/s | minutes | threads |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    runs = [
        r
        for folder in ("mnist", "multimnist", "smallnorb", "toyviews", "affnist")
        for r in read_results(folder)
    ]
    for r in runs:
        lines.append(
            f"| {r['dataset']} | `{r['model']}` | {r['recipe']} | {r['seed']} | {r['epochs']} | "
            f"{r['images_per_second']:.0f} | {r['seconds'] / 60:.1f} | {r['threads']} |"
        )
    return "\n".join(lines)


def export_table() -> str:
    """A row for torch and each format, for each record of benchmarks/onnx_speed.py; speeds on one thread, batch 1."""
    lines = [
        "| weights | in | encoder | whole model | largest difference from torch | test error | ms per image | times torch |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    taken = []
    for record in read_results("export"):
        score, speed = record["score"], record["speed"]["threads 1, batch 1"]
        rows: dict[str, tuple[str, str, str, float]] = {
            "torch": ("-", f"{record['torch_bytes'] / 1e6:.2f} MB", "-", score["test_error_percent"])
        }
        for name, error in (("onnx", "float32_test_error_percent"), ("int8", "int8_test_error_percent")):
            export = record["exports"][name]
            sizes = [export["files"][f"{part}.onnx"]["bytes"] / 1e6 for part in ("encoder", "model")]
            parity = export["parity"]["largest_relative_difference"]["float32" if name == "onnx" else "int8"]
            worst = max(value for part in parity.values() for value in part.values())
            rows[name] = (f"{sizes[0]:.2f} MB", f"{sizes[1]:.2f} MB", f"{worst:.0e}", score[error])
        for name, (encoder, whole, worst, error_percent) in rows.items():
            title = {"torch": "torch, eager", "onnx": "ONNX float32", "int8": "ONNX int8"}[name]
            lines.append(
                f"| `{record['weights']}` | {title} | {encoder} | {whole} | {worst} | {error_percent:.2f} % | "
                f"{speed[name]['ms_per_image']:.2f} | {speed[name]['times_torch']:.1f} |"
            )
        taken.append(f"{record['machine']}, 1 thread, load {record['load_before'][0]}, {record['date'][:10]}")
    lines += [
        "",
        f"One image at a time through the encoder; all in one run on {'; '.join(sorted(set(taken)))}.",
    ]
    return "\n".join(lines)


def serve_table() -> str:
    """The server with and without batching, from benchmarks/serve.py."""
    record = json.loads((ROOT / "results" / "benchmarks" / "serve.json").read_text())
    lines = ["| requests | per second | p50 | p99 | failed |", "|---|---:|---:|---:|---:|"]
    titles = {
        "batching": "computed together",
        "each alone": "each alone",
        "before": "computed together, before",
    }
    for name, title in titles.items():
        if name not in record:
            continue
        row = record[name]
        lines.append(
            f"| {title} | {row['requests_per_second']:.0f} | {row['p50_ms']:.0f} ms | {row['p99_ms']:.0f} ms | "
            f"{row['failed']} of {row['requests']:,} |"
        )
    lines += [
        "",
        f"{record['clients']} clients on the server's own machine, {record['seconds']:.0f} s each, in one run; "
        f"{record['machine']}, load {record['load'][0]} before, {record['date'][:10]}.",
    ]
    return "\n".join(lines)


def train_speed_table() -> str:
    """The training loop against the convolutions alone, from benchmarks/train_speed.py."""
    lines = [
        "| precision | threads | batch | images/s | of the bare step | billion operations/s | PyTorch's convolutions alone | "
        "share | convolutions as trained alone | share |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for record in read_results("train_speed"):
        for batch, part in record["batches"].items():
            giga, loop = part["billion operations a second"], part["in turn"]["loop"]
            alone = (
                f"{giga[name]:.1f} | {100 * part[f'share of the {name}']:.1f} %"
                for name in ("convolutions alone", "convolutions alone, as trained")
            )
            lines.append(
                f"| {record['precision']} | {record['threads']} | {batch} | {loop['images_per_second']:.0f} | "
                f"{100 * part['share of the bare step']:.1f} % | {giga['loop']:.1f} | {' | '.join(alone)} |"
            )
    return "\n".join([*lines, "", f"{taken_each('train_speed')}."])


def forms_table() -> str:
    """Images/s of the bare step in each form, from benchmarks/train_speed.py."""
    records = read_results("train_speed")
    forms = list(next(iter(records[0]["batches"].values()))["forms"])
    lines = [
        f"| precision | threads | batch | {' | '.join(forms)} |",
        "|---|---:|---:|" + "---:|" * len(forms),
    ]
    for record in records:
        for batch, part in record["batches"].items():
            rates = " | ".join(f"{part['forms'][form]['images_per_second']:.0f}" for form in forms)
            lines.append(f"| {record['precision']} | {record['threads']} | {batch} | {rates} |")
    return "\n".join([*lines, "", f"{taken_each('train_speed')}."])


def side_by_side_table() -> str:
    """How fast a training is alone and beside another, from benchmarks/side_by_side.py."""
    record = read_benchmark("side_by_side")
    medians = record["medians"]
    best = medians["300000"]["alone"]
    lines = [
        "| turns before a waiting thread sleeps | alone, images/s | of OpenMP's own | each of two, images/s | of half |",
        "|---|---:|---:|---:|---:|",
    ]
    names = {"300000": "300,000, OpenMP's own", "capsnet": "as capsnet has it", "2000": "2,000"}
    for setting, rates in medians.items():
        alone, beside = rates["alone"], rates["each of two"]
        lines.append(
            f"| {names[setting]} | {alone:.0f} | {100 * alone / best:.1f} % | {beside:.0f} | {200 * beside / best:.1f} % |"
        )
    return "\n".join(
        [*lines, "", f"Medians of five rounds. {taken(record)}, {record['threads']} threads per training."]
    )


def against_table() -> str:
    """Training speed and start-up of two commits, from benchmarks/against.py."""
    record = read_benchmark("against")
    lines = [
        "| precision, threads | images/s before | after | ratio | second step after, before | after |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, part in record.items():
        if isinstance(part, dict) and "ratio" in part:
            rates, starts = part["images_per_second"], part["second_step_after_seconds"]
            lines.append(
                f"| {name} | {rates['before']:.0f} | {rates['after']:.0f} | {part['ratio']} | "
                f"{starts['before']:.2f} s | {starts['after']:.2f} s |"
            )
    return "\n".join([*lines, "", f"Before: {record['before']}. After: {taken(record)}."])


def read_benchmark(name: str) -> dict[str, Any]:
    """The record that a benchmark keeps in results/benchmarks."""
    return json.loads((ROOT / "results" / "benchmarks" / f"{name}.json").read_text())


def taken_each(folder: str) -> str:
    """Where and when the records of a folder were taken."""
    return "; ".join(dict.fromkeys(taken(record) for record in read_results(folder)))


def repeats_table() -> str:
    """Runs that were done twice, from benchmarks/same_run.py."""
    lines = [
        "| data | recipe | seed | precision | threads | weights | losses of all epochs | commit | machine |",
        "|---|---|---:|---|---:|---|---|---|---|",
    ]
    for record in read_results("repeats"):
        config, run = record["config"], record["runs"][1]
        same = [f"{'the same' if record[key] else 'other'} bits" for key in ("same_weights", "same_losses")]
        lines.append(
            f"| {config['dataset']} | {config['recipe']['name']} | {config['seed']} | {config['precision']} | "
            f"{run['threads']} | {same[0]} | {same[1]} | {run['commit'][:8]} | {run['machine']} |"
        )
    return "\n".join(lines)


def over_seeds(runs: list[dict[str, Any]]) -> str:
    """The mean test error in percent and, of several seeds, its deviation and the seeds."""
    errors = [run["test_error_percent"] for run in runs]
    if len(errors) < 2:
        return f"{errors[0]:.2f} %"
    return f"{statistics.mean(errors):.2f} ± {statistics.stdev(errors):.2f} %"


def same_budget_runs(group: str, name: Callable[[dict[str, Any]], str]) -> dict[str, list[dict[str, Any]]]:
    """The runs of one group of the comparison, by name."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for run in read_results("same_budget"):
        if run["group"] == group:
            by_name.setdefault(name(run), []).append(run)
    return by_name


def systems_table() -> str:
    """A row a system, best first; its cost is from one quiet run of `capsnet analyze cost`."""
    lines = [
        "| system | encoder parameters | operations | training images/s | test error after 30,000 | after 300,000 |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    cost = json.loads((ROOT / "results" / "benchmarks" / "cost_mnist.json").read_text())
    costs = {row["name"]: row for row in cost["models"]}

    def best(runs: list[dict[str, Any]]) -> tuple[int, float]:
        most = max(runs, key=lambda run: run["config"]["recipe"]["images"])
        return -most["config"]["recipe"]["images"], most["test_error_percent"]

    for model, runs in sorted(
        same_budget_runs("systems", lambda r: r["model"]).items(), key=lambda item: best(item[1])
    ):
        errors = {run["config"]["recipe"]["images"]: f"{run['test_error_percent']:.2f} %" for run in runs}
        lines.append(
            f"| `{model}` | {runs[0]['encoder_parameters']:,} | {runs[0]['operations'] / 1e6:.0f} M | "
            f"{costs[model]['training_images_per_second']:.0f} | {errors.get(30_000, '-')} | {errors.get(300_000, '-')} |"
        )
    lines += [
        "",
        f"One seed (0). Images/s: in float32, batch {costs['capsnet']['batch_size']}, {cost['machine']}, "
        f"{cost['threads']} threads, load {cost['load'][0]}, {cost['date'][:10]}.",
    ]
    return "\n".join(lines)


def reconstruction_table() -> str:
    """With and without the regulariser, the same seeds."""

    def name(run: dict[str, Any]) -> str:
        return f"{run['model']}|{'without' if run['config']['model_options'].get('decoder') is False else 'with'}"

    runs = same_budget_runs("reconstruction", name)
    lines = ["| system | seeds | with reconstruction | without |", "|---|---|---:|---:|"]
    for model in sorted({key.split("|")[0] for key in runs}):
        both = [runs.get(f"{model}|{part}", []) for part in ("with", "without")]
        seeds = ", ".join(str(run["seed"]) for run in max(both, key=len))
        cells = [over_seeds(part) if part else "-" for part in both]
        lines.append(f"| `{model}` | {seeds} | {' | '.join(cells)} |")
    return "\n".join(lines)


def routings_table() -> str:
    """A row a routing, best first."""
    lines = ["| routing | seeds | test error | of each seed |", "|---|---|---:|---|"]
    rows = same_budget_runs("routings", lambda r: r["config"]["model_options"]["routing"]).items()
    for routing, runs in sorted(
        rows, key=lambda row: statistics.mean(r["test_error_percent"] for r in row[1])
    ):
        seeds = ", ".join(str(run["seed"]) for run in runs)
        each = ", ".join(f"{run['test_error_percent']:.2f}" for run in runs)
        lines.append(f"| {routing} | {seeds} | {over_seeds(runs)} | {each} |")
    return "\n".join(lines)


def scaling(name: str) -> dict[str, Any]:
    """A record of benchmarks/scaling.py."""
    return json.loads((ROOT / "results" / "scaling" / f"{name}.json").read_text())


def taken(record: dict[str, Any]) -> str:
    """Where and when."""
    load = record.get("load_before", [0.0])[0]
    # Up to 2 may be what the benchmark before has left behind.
    busy = ": not idle, so what needs both cores at once is slower than it would be" if load > 2 else ""
    return f"{record['machine']}, {record['date'][:10]}, commit {record['commit'][:8]}" + (
        f", load {load}{busy}" if load else ""
    )


def scaling_speed_table() -> str:
    """Images/s of one and two processes."""
    record = scaling("speed")
    lines = ["| | images/s, median | each | efficiency |", "|---|---:|---|---:|"]
    for name, rate in record["images_per_second"].items():
        each = ", ".join(f"{value:.0f}" for value in rate["each"])
        lines.append(f"| {name} | {rate['median']:.0f} | {each} | {100 * record['efficiency'][name]:.0f} % |")
    lines += [
        "",
        f"`{record['model']}`, global batch {record['batch_size']}; efficiency is the speed-up over one thread, divided by the "
        f"threads. {taken(record)}.",
    ]
    return "\n".join(lines)


def scaling_errors_table() -> str:
    """Test errors by one and two processes."""
    record = scaling("errors")
    errors = record["test_error_percent"]
    lines = [
        "| processes | " + " | ".join(f"seed {n}" for n in range(len(errors["1 processes"]))) + " | mean |"
    ]
    lines.append("|---|" + "---:|" * (len(errors["1 processes"]) + 1))
    for name, values in errors.items():
        each = " | ".join(f"{value:.2f} %" for value in values)
        lines.append(f"| {name.split()[0]} | {each} | {statistics.mean(values):.2f} % |")
    lines += [
        "",
        f"`capsnet train {' '.join(record['words'])}`, whole test set. The means differ by {record['mean_difference']:+.2f}; "
        f"one process's deviation over seeds is {record['deviation_over_seeds']:.2f}. {taken(record)}.",
    ]
    return "\n".join(lines)


def scaling_ray_table() -> str:
    """What Ray adds."""
    record = scaling("ray")
    seconds = record["seconds"]
    return (
        f"{record['trials']} trials of some seconds, {record['at_a_time']} at a time: {seconds['local']:.1f} s by "
        f"`--engine local` ({seconds['warm-up']:.1f} s the first time), {seconds['ray']:.1f} s by `--engine ray`, which is "
        f"{record['seconds_more_a_trial']:+.2f} s a trial; starting Ray on this machine took "
        f"{record['seconds_to_start_ray']:.1f} s, once. {taken(record)}."
    )


def scaling_estimate_table() -> str:
    """Hours of each system and of all."""
    record = scaling("estimate")
    lines = [
        "| system | data | core hours per seed, `budget` | `paper` | GPU hours per seed, `budget` | `paper` |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in record["models"]:
        hours = [row[kind][unit] for unit in ("core_hours", "gpu_hours") for kind in ("budget", "paper")]
        lines.append(
            f"| `{row['model']}` | {row['dataset']} | "
            + " | ".join(f"{value:,.2f}" for value in hours)
            + " |"
        )
    assumed = record["assumed"]
    lines += ["", f"{record['seeds']} seeds of all of them:", ""]
    for kind, total in record["totals"].items():
        lines.append(
            f"- `{kind}`: {total['core_hours']:,.0f} core hours / {assumed['nodes'] * assumed['cores_per_node']} cores = "
            f"{total['core_hours'] / (assumed['nodes'] * assumed['cores_per_node']):,.1f} h; the longest trial takes "
            f"{total['longest_trial_core_hours']:,.1f} h, so the cluster needs {total['cluster_hours']:,.1f} h. "
            f"{total['gpu_hours']:,.0f} GPU hours / {assumed['gpus']} = {total['gpu_node_hours']:,.1f} h on the GPU node."
        )
    return "\n".join(lines)


CIFAR10_REPORTED = {
    "Efficient-CapsNet": 83.0,
    "AlexCapsNet (Bao et al. 2025)": 83.7,
    "DeepCaps (Rajasegaran et al. 2019)": 92.7,
}


def cifar10_table() -> str:
    """A row for each system that was trained here, over all seeds, below those that others report."""
    lines = [
        "| system | encoder parameters | augmentation | accuracy, reported | ours | of each seed | epochs | "
        "minutes per seed, beside other work |",
        "|---|---:|---|---:|---:|---|---:|---:|",
    ]
    lines += [f"| {name} | | | {value} % | | | | |" for name, value in CIFAR10_REPORTED.items()]
    machines = set()
    runs = sorted(read_results("cifar10"), key=lambda run: (run["model"], run["seed"]))
    for model, group in groupby(runs, key=lambda run: run["model"]):
        seeds = list(group)
        accuracies = [100 - run["test_error_percent"] for run in seeds]
        lines.append(
            f"| `{model}` | {seeds[0]['encoder_parameters']:,} | "
            f"{seeds[0]['config']['recipe']['augmentation'] or 'crop_flip'} | | "
            f"{statistics.mean(accuracies):.2f} % | {', '.join(f'{value:.2f}' for value in accuracies)} | "
            f"{length(seeds[0])} | {statistics.mean(run['seconds'] for run in seeds) / 60:.0f} |"
        )
        machines |= {
            f"{r['machine']}, {r['threads']} thread{'s' * (r['threads'] > 1)} per run, {r['date'][:10]}"
            for r in seeds
        }
    lines += ["", f"Ours: {'; '.join(sorted(machines)) or 'no run is kept in `results/cifar10/` yet'}."]
    return "\n".join(lines)


def eth80_table() -> str:
    """Each candidate on ETH-80's held-out and test objects, from experiments/eth80_folder.py."""
    return "\n".join(eth80_folder.make_table(ROOT / "results"))


def photo_trials_table() -> str:
    """The short trainings that chose the recipe `photos`, on held-out training images."""
    lines = [
        "| system | images | epochs | optimiser | rate | batch | average | augmentation | validation error | training error |",
        "|---|---:|---:|---|---:|---:|---:|---|---:|---:|",
    ]
    runs = read_results("photo_trials")
    for run in sorted(runs, key=lambda run: (run["model"], run["epochs"], run["validation_error_percent"])):
        recipe = run["config"]["recipe"]
        lines.append(
            f"| `{run['model']}` | {run['train_images']:,} | {run['epochs']} | {recipe['optimizer']} | "
            f"{recipe['learning_rate']} | {run['batch_size']} | {recipe['average']} | "
            f"{recipe['augmentation'] or 'crop_flip'} | {run['validation_error_percent']:.2f} % | "
            f"{run['train_error_percent']:.2f} % |"
        )
    return "\n".join(lines)


def finetuning_table() -> str:
    """Other people's digits: a row for each start, a column for each number of steps, over all seeds."""
    titles = {
        "scratch": "from scratch",
        "mnist": "from `efficient_capsnet.mnist`",
        "mnist-frozen": "from `efficient_capsnet.mnist`, `encoder.blocks` frozen",
        "mnist-new-classes": "from `efficient_capsnet.mnist`, classes named otherwise",
    }
    runs = read_results("finetuning")
    lengths = sorted({run["epochs"] for run in runs})
    steps = {n: n * -(-runs[0]["train_images"] // runs[0]["batch_size"]) for n in lengths}
    lines = [
        f"| start | {' | '.join(f'test error after {steps[n]} steps' for n in lengths)} |",
        f"|---|{'---|' * len(lengths)}",
    ]
    for start, title in titles.items():
        of_start = [run for run in runs if finetuning_start(run) == start]
        cells = [ours([run for run in of_start if run["epochs"] == n], "test_error_percent") for n in lengths]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    seeds = sorted({run["seed"] for run in runs})
    lines += [
        "",
        f"Seeds {', '.join(map(str, seeds))}; mean ± deviation (lowest to highest). {taken_each('finetuning')}",
    ]
    return "\n".join(lines)


def finetuning_start(run: dict[str, Any]) -> str:
    """Which of the experiment's starts a run has."""
    start = run["start"]
    if start is None:
        return "scratch"
    return "mnist-new-classes" if start["classes_new"] else "mnist-frozen" if start["frozen"] else "mnist"


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "headline": ("README.md", headline_table),
    "map": ("docs/map.md", code_map.table),
    "results": ("docs/results.md", results_table),
    "recipe-trials": ("docs/records.md", partial(trials_table, "handwriting")),
    "writer-trials": ("docs/records.md", partial(trials_table, "writers-gentle")),
    "pair-trials": ("docs/records.md", partial(trials_table, "pairs-quarter-drawn")),
    "first-fast": ("docs/records.md", partial(seeds_table, "history/first_fast")),
    "adam-fast": ("docs/records.md", partial(seeds_table, "history/adam_fast")),
    "lively-fast": ("docs/records.md", partial(seeds_table, "history/lively_fast")),
    "fast": ("docs/records.md", partial(seeds_table, "mnist")),
    "first-pairs": ("docs/records.md", partial(seeds_table, "history/first_pairs")),
    "million-pairs": ("docs/records.md", partial(seeds_table, "history/million_pairs")),
    "fast-pairs": ("docs/records.md", partial(seeds_table, "multimnist")),
    "longer-pairs": ("docs/records.md", partial(seeds_table, "multimnist", "longer")),
    "longest-pairs": ("docs/records.md", partial(seeds_table, "multimnist", "longest")),
    "continued-pairs": ("docs/records.md", continued_table),
    "short": ("docs/results.md", short_table),
    "times": ("docs/reproducing.md", times_table),
    "repeats": ("docs/reproducing.md", repeats_table),
    "train-speed": ("benchmarks/README.md", train_speed_table),
    "train-forms": ("benchmarks/README.md", forms_table),
    "side-by-side": ("benchmarks/README.md", side_by_side_table),
    "against": ("benchmarks/README.md", against_table),
    "export": ("docs/exporting.md", export_table),
    "serve": ("docs/serving.md", serve_table),
    "systems": ("docs/results.md", systems_table),
    "reconstruction": ("docs/results.md", reconstruction_table),
    "routings": ("docs/results.md", routings_table),
    "cifar10": ("docs/photographs.md", cifar10_table),
    "photo-trials": ("docs/photographs.md", photo_trials_table),
    "eth80-folder": ("docs/photographs.md", eth80_table),
    **{
        f"reliability-{part}": ("docs/reliability.md", partial(reliability_tables.table, part, make))
        for part, make in reliability_tables.TABLES.items()
    },
    **{name: ("docs/routing.md", make) for name, make in routing_tables.TABLES.items()},
    "finetuning": ("docs/finetuning.md", finetuning_table),
    "unknown": ("docs/unknown.md", unknown_tables.unknown_table),
    "attacks": ("docs/unknown.md", unknown_tables.attacks_table),
    "scaling-speed": ("docs/scaling.md", scaling_speed_table),
    "scaling-errors": ("docs/scaling.md", scaling_errors_table),
    "scaling-ray": ("docs/scaling.md", scaling_ray_table),
    "scaling-estimate": ("docs/scaling.md", scaling_estimate_table),
}


def filled(text: str, name: str, table: str) -> str:
    """The text with what stands between the markers of `name` replaced."""
    begin, end = f"<!-- table: {name} -->", f"<!-- end: {name} -->"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{table}\n{end}{after}"


def source_of(file: str, name: str) -> str:
    """The source of a function, of a class, or of `Class.method`, in a file of the package."""
    path = ROOT / "src" / "capsnet" / file
    found: ast.AST = ast.parse(path.read_text(encoding="utf-8"))
    for part in name.split("."):
        named = (ast.FunctionDef, ast.ClassDef)
        found = next(n for n in ast.walk(found) if isinstance(n, named) and n.name == part)
    assert isinstance(found, ast.FunctionDef | ast.ClassDef)
    first = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])
    lines = path.read_text(encoding="utf-8").splitlines()[first - 1 : found.end_lineno]
    return textwrap.dedent("\n".join(lines))


def with_code(text: str) -> str:
    """The text with the code of the package between its `<!-- code: FILE NAME... -->` marks."""

    def fill(mark: re.Match[str]) -> str:
        file, *names = mark[1].split()
        code = "\n\n\n".join(source_of(file, name) for name in names)
        return f"<!-- code: {mark[1]} -->\n```py\n{code}\n```\n<!-- end: code -->"

    return re.sub(r"<!-- code: (.*?) -->\n.*?<!-- end: code -->", fill, text, flags=re.DOTALL)


def main() -> int:
    stale = []
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if with_code(text) != text:
            stale.append(f"{path.relative_to(ROOT)}: code")
            if "--check" not in sys.argv:
                path.write_text(with_code(text), encoding="utf-8")
    for name, (file, make) in TABLES.items():
        path = ROOT / file
        text = path.read_text()
        new = filled(text, name, make())
        if new != text:
            stale.append(f"{file}: {name}")
            if "--check" not in sys.argv:
                path.write_text(new)
    print("\n".join(stale) if stale else "All tables are up to date.")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
