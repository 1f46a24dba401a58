"""The tables of docs/routing.md, from what `capsnet analyze routing --record results` has kept in results/routing/."""

import json
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).resolve().parent.parent / "results" / "routing"
NOT_YET = "Not taken yet: `capsnet analyze routing WEIGHTS --out DIR --record results`."
COUPLINGS = ("own", "mean", "uniform", "another picture's")


def records() -> list[dict[str, Any]]:
    """All records, by the name of the weights."""
    return [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))]


def taken(found: list[dict[str, Any]]) -> str:
    """Where and when."""
    places = {
        f"{r['machine']}, {r['threads']} thread{'s' * (r['threads'] > 1)}, {r['date'][:10]}, commit {r['commit'][:8]}"
        for r in found
    }
    return f"Taken on {'; '.join(sorted(places))}."


def coupling_table() -> str:
    """One row for each routed layer."""
    if not records():
        return NOT_YET
    lines = [
        "| weights | routing | inputs to parents | dead inputs | dead parents | entropy | diversity | picture dependence | "
        "deviation over pictures |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for record in records():
        for routing, layer in zip(record["routing"], record["layers"].values(), strict=False):
            dead = "-" if layer["dead_inputs"] is None else layer["dead_inputs"]
            shares = (
                f"{layer[key]:.1f} %"
                for key in ("entropy_percent", "diversity_percent", "picture_dependence_percent")
            )
            lines.append(
                f"| `{record['weights']}` | {routing} | {layer['inputs']} to {layer['parents']} | {dead} | "
                f"{layer['dead_parents']} | {' | '.join(shares)} | "
                f"{layer['deviation_over_pictures']:.3f} (mean {layer['mean_coupling']:.3f}) |"
            )
    return "\n".join([*lines, "", taken(records())])


def replaced_table() -> str:
    """One row for each weights: the error with each coupling, and how many answers change."""
    if not records():
        return NOT_YET
    lines = [
        "| weights | test images | own coupling | mean over training images | uniform | another picture's |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for record in records():
        cells = []
        for kind in COUPLINGS:
            entry = dict(record["errors"][kind])
            changed = entry.pop("changed_percent")
            name, error = next(iter(entry.items()))
            shown = f"{error:.2f} %" + (" of pairs" if "pair" in name else "")
            cells.append(shown if kind == "own" else f"{shown} ({changed:.1f} % changed)")
        lines.append(f"| `{record['weights']}` | {record['images']:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES = {"routing-coupling": coupling_table, "routing-replaced": replaced_table}
