"""The tables of docs/unknown.md, from results/unknown/."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results" / "unknown"
MISSING = "Not recorded yet."
# How a measure is called where it stands for what is usual for a network without capsules.
BASELINES = {"length": "largest softmax", "votes": "Mahalanobis of features"}


def read(name: str) -> dict[str, Any] | None:
    """A record, if it was made."""
    file = RESULTS / f"{name}.json"
    found: dict[str, Any] | None = json.loads(file.read_text()) if file.exists() else None
    return found


def taken(record: dict[str, Any]) -> str:
    """Where and when a record was made."""
    load = (record["load"] or [0])[0]
    where = f"{record['machine']}, {record['threads']} thread, load {load}"
    return f"Taken on {where}, {record['date'][:10]}, commit {(record['commit'] or 'none')[:8]}."


def unknown_table() -> str:
    """A row per system and measure: false alarms, accepted digits of others, and per set of pictures detection and AUROC."""
    record = read("mnist")
    if record is None:
        return MISSING
    systems = record["systems"]
    first = next(iter(systems.values()))["measures"]["combined"]
    familiar, sets = list(first["accepted_percent"]), list(first["detected_percent"])
    titles = ["false alarms", *(f"{name} accepted" for name in familiar), *sets]
    lines = [
        f"| system | measure | {' | '.join(titles)} |",
        f"|---|---|{'---:|' * len(titles)}",
    ]
    for system, told in systems.items():
        plain = system.startswith("cnn")
        for name, found in told["measures"].items():
            cells = [f"{found['false_alarms_percent']:.1f} %"]
            cells += [f"{found['accepted_percent'][of]:.1f} %" for of in familiar]
            cells += [f"{found['detected_percent'][of]:.1f} % ({found['auroc'][of]:.3f})" for of in sets]
            lines.append(
                f"| `{system}` | {BASELINES.get(name, name) if plain else name} | {' | '.join(cells)} |"
            )
    counts = f"{record['images']['test images']} pictures of each kind, seed {record['seed']}"
    lines += ["", f"{counts}. {taken(record)}"]
    return "\n".join(lines)


def attacks_table() -> str:
    """A row per attack and strength: errors, and those not noticed, of each system."""
    record = read("attacks")
    if record is None:
        return MISSING
    systems = record["systems"]
    lines = [
        f"| attack | strength | {' | '.join(f'`{name}`' for name in systems)} |",
        f"|---|---:|{'---:|' * len(systems)}",
    ]
    kept = {name: {(r["attack"], r["strength"]): r for r in told["rows"]} for name, told in systems.items()}
    for attack, strength in next(iter(kept.values())):
        cells = []
        for rows in kept.values():
            row = rows.get((attack, strength))
            cells.append(
                "-"
                if row is None
                else f"{row['error_percent']:.0f} %, noticed {row['detected_percent']:.0f} %, "
                f"errors left {row['undetected_error_percent']:.0f} %"
            )
        lines.append(f"| {attack} | {strength:g} | {' | '.join(cells)} |")
    trusted = ", ".join(
        f"`{name}` {'pass' if told['gradients']['trusted'] else 'FAIL'}" for name, told in systems.items()
    )
    lines += [
        "",
        f"{record['images']} test images, {record['steps']} steps, seed {record['seed']}. "
        f"Gradient checks: {trusted}. {taken(record)}",
    ]
    return "\n".join(lines)
