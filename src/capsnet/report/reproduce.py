"""`capsnet reproduce`: the paper's tables and figures from results/ and weights. Nothing is trained, nothing is made up."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import capsnet
from capsnet.report import paper, tables
from capsnet.report.figures import default_weights, draw_all
from capsnet.report.measured import (
    cost_mismatches,
    cost_table,
    equivariance_table,
    linear_table,
    measure_costs,
)
from capsnet.report.page import Notes, Report, write_report
from capsnet.report.records import Results, by_recipe, find_results, group_by

TITLE = "Efficient-CapsNet: reported and ours"
MISMATCH = "What does not match, and what is missing"


def build_report(
    out: Path,
    *,
    results: Path | None = None,
    weights: Sequence[str] | None = None,
    data_dir: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Writes index.html, report.md and figures/ into `out`.

    Args:
        results: the folder of records; see `find_results`.
        weights: networks to make figures from; the bundled ones and those in the results when None. The first is the one looked
            at closely.
        say: hears what is being done.
    """
    found = Results(find_results(results))
    say("counting parameters and operations")
    costs = measure_costs()
    made = [cost_table(costs), *error_tables(found), equivariance_table(found), linear_table(found)]
    names = default_weights(found.folder) if weights is None else weights
    pictures = draw_all(found, names, out / "figures", data_dir, say)
    differing = Notes("mismatches", MISMATCH, mismatches(found, costs))
    report = Report(TITLE, summary(found), [differing, *made, *pictures])
    write_report(report, out)
    return report


def error_tables(found: Results) -> list[Any]:
    """Every table that is read from results/."""
    return [
        tables.error_table(found, "mnist", paper.MNIST, "mnist", "MNIST"),
        tables.ensemble_table(found),
        tables.error_table(found, "smallnorb", paper.SMALLNORB, "smallnorb", "smallNORB"),
        tables.own_table(
            found,
            "toyviews",
            "toyviews",
            "toyviews",
            "A synthetic viewpoint set of this package, in its own table: its numbers say nothing about smallNORB.",
            ("efficient_capsnet_smallnorb", "base_capsnet", "cnn_small"),
        ),
        tables.multimnist_table(found),
        tables.overfitting_table(found),
        tables.budget_table(
            found,
            "systems",
            "All systems at the same budget",
            "The same plain settings for every system; not records.",
        ),
        tables.budget_table(
            found,
            "routings",
            "All routings at the same budget",
            "The same skeleton, 10,000 training images; only the routing differs.",
        ),
        tables.budget_table(
            found,
            "reconstruction",
            "With and without reconstruction",
            "What the reconstruction regulariser adds.",
        ),
        tables.views_table(found),
        tables.own_table(
            found,
            "affnist",
            "affnist",
            "affNIST-style digits, generated",
            "Trained on MNIST placed at random on 40x40, tested under affine maps; generated here from MNIST's test set, not "
            "the original files. For comparison, Gu and Tresp 2020 report 93.2 % accuracy on the original.",
            ("efficient_capsnet", "base_capsnet", "cnn_small"),
        ),
    ]


def summary(found: Results) -> list[str]:
    runs = sum(len(records) for records in found.records.values())
    dates = sorted(r["date"][:10] for records in found.records.values() for r in records if "date" in r)
    span = f", taken from {dates[0]} to {dates[-1]}" if dates else ""
    return [
        "Every table of Mazzia, Salvetti and Chiaberge, Efficient-CapsNet (2021), with what the paper reports and what this "
        "package measures, and its figures made again from our networks.",
        f"Made by capsnet {capsnet.__version__} from {runs} result{'s' * (runs != 1)}{span}. Numbers of ours are means "
        "over all seeds, with the sample deviation from two seeds on.",
    ]


def mismatches(found: Results, costs: dict[str, dict[str, Any]]) -> list[str]:
    """What differs from the paper, in words, and what has not been run."""
    said = cost_mismatches(costs)
    missing: dict[str, list[str]] = {}
    for dataset, rows in (("mnist", paper.MNIST), ("smallnorb", paper.SMALLNORB)):
        for row in rows:
            groups = group_by(found.runs(dataset, row.model, decoder=row.decoder), by_recipe, tables.TEST)
            how = {None: "", True: " with reconstruction", False: " without reconstruction"}[row.decoder]
            name = f"{row.method}{how}"
            if not groups:
                missing.setdefault(dataset, []).append(name)
            for group in groups:
                mean = group.summary["mean"]
                way = "above" if mean > row.reported_error else "below"
                gap = abs(mean - row.reported_error)
                said.append(
                    f"{name} on {dataset}: {row.reported_error} % reported, {mean:.2f} % ours ({group.recipe}, "
                    f"{group.seeds}): {gap:.2f} points {way}."
                )
    for record in found.of("equivariance"):
        if record["model"] == "efficient_capsnet":
            for name, reported in paper.EFFICIENT_EQUIVARIANCE.items():
                ours = record["table"][name]["first_component_percent"]
                said.append(f"Equivariance, {name}: {reported} % reported, {ours:.2f} % ours.")
    return said + [f"Not run yet on {dataset}: {'; '.join(names)}." for dataset, names in missing.items()]
