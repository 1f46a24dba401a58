"""Where the last errors are: the test images that many networks miss, each with how often, who wrote it and what people say.

Works on the predictions that runs kept, all seeds of a recipe together. For data sets that know the writers of their test
images the misses are counted by writer; for MNIST also by series (students or employees of the Census Bureau), and the
labels that people dispute are named (`capsnet.data.disputed`): how near the floor is.

Letters: R runs, N images, J classes.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capsnet.analysis.plotting import VERMILLION, new_figure, save_figure, show_picture, write_csv
from capsnet.analysis.subject import Subject
from capsnet.data.base import DataSet
from capsnet.data.disputed import DISPUTED
from capsnet.errors import CapsNetError
from capsnet.evaluate.ensembles import Member, mean_scores, short_names

MOST = 60
MOST_WRITERS = 10
FIRST_STUDENT = 2000  # writers of NIST's series hsf_4 have numbers from here on, those of hsf_0 lower ones


def find_missed(members: Sequence[Member], dataset: DataSet) -> dict[str, Any]:
    """Return every image that a run misses, the most missed first, and their counts by run, writer and dispute."""
    classes = members[0].predictions.classes
    if classes.shape[1] != 1:
        raise CapsNetError("Missed images are counted where an image has one class, not on pairs.")
    labels = classes[:, 0]
    answers = torch.stack([member.predictions.scores.argmax(dim=1) for member in members])  # (R, N)
    wrong = answers != labels
    times = wrong.sum(dim=0)
    together = mean_scores(members).wrong()
    writers = dataset.test_groups.get("writers")
    disputed = DISPUTED.get(dataset.name, {})
    order = sorted(torch.nonzero(times).flatten().tolist(), key=lambda n: (-int(times[n]), n))
    rows = [
        {
            "index": n,
            "label": dataset.class_names[int(labels[n])],
            "missed_by": int(times[n]),
            "taken_for": counted(answers[wrong[:, n], n], dataset.class_names),
            "missed_by_ensemble": bool(together[n]),
            **({"writer": int(writers[n])} if writers is not None else {}),
            **({"votes": disputed[n]._asdict()} if n in disputed else {}),
        }
        for n in order
    ]
    runs = len(members)
    return {
        "images": len(labels),
        "runs": short_names([member.run for member in members]),
        "errors": wrong.sum(dim=1).tolist(),
        "mean_errors": float(wrong.sum()) / runs,
        "ensemble_errors": int(together.sum()),
        "missed_by_any": len(rows),
        "missed_by_half": sum(2 * row["missed_by"] >= runs for row in rows),
        "missed_by_all": sum(row["missed_by"] == runs for row in rows),
        **(by_writer(wrong, writers, dataset.name) if writers is not None else {}),
        **({"disputed": by_dispute(wrong, together, list(disputed))} if disputed else {}),
        "missed": rows,
    }


def counted(answers: Tensor, names: Sequence[str]) -> dict[str, int]:
    """Return how often each class was the answer, the most frequent first."""
    return {names[answer]: count for answer, count in Counter(answers.tolist()).most_common()}


def by_writer(wrong: Tensor, writers: Tensor, dataset: str) -> dict[str, Any]:
    """Return the writers with the most misses, how many have none, and for MNIST both series."""
    misses = wrong.double().mean(dim=0)  # of a run, at each image
    numbers, place = writers.unique(return_inverse=True)
    total = torch.zeros(len(numbers), dtype=torch.float64).scatter_add(0, place, misses)
    images = place.bincount()
    worst = total.argsort(descending=True, stable=True)[:MOST_WRITERS].tolist()
    found: dict[str, Any] = {
        "writers": len(numbers),
        "writers_never_missed": int((total == 0).sum()),
        "worst_writers": [
            {"writer": int(numbers[w]), "images": int(images[w]), "mean_errors": round(float(total[w]), 6)}
            for w in worst
            if total[w] > 0
        ],
    }
    if dataset == "mnist":
        students = writers >= FIRST_STUDENT
        found["series"] = {
            name: {
                "images": int(mask.sum()),
                "writers": len(writers[mask].unique()),
                "error_percent": round(100 * float(misses[mask].mean()), 6),
            }
            for name, mask in (("census employees (hsf_0)", ~students), ("students (hsf_4)", students))
        }
    return found


def by_dispute(wrong: Tensor, together: Tensor, disputed: list[int]) -> dict[str, Any]:
    """Return how many errors are on labels without a majority of people, of a run and of the ensemble."""
    on = wrong[:, disputed]
    return {
        "images": disputed,
        "mean_errors_on_them": float(on.sum()) / len(wrong),
        "mean_errors_elsewhere": float(wrong.sum() - on.sum()) / len(wrong),
        "ensemble_errors_on_them": int(together[disputed].sum()),
        "missed_by_all": int(on.all(dim=0).sum()),
        "never_missed": int((~on.any(dim=0)).sum()),
    }


def analyse(members: Sequence[Member], subject: Subject, out: Path, *, most: int = MOST) -> dict[str, Any]:
    """Draw the most missed images and write all of them."""
    found = find_missed(members, subject.dataset)
    rows = found["missed"]
    flat = [flatten(row) for row in rows]
    write_csv(out / "missed.csv", flat)
    files = draw(subject, rows[:most], len(members), out) if rows else []
    return {**found, "files": [str(f) for f in files]}


def flatten(row: dict[str, Any]) -> dict[str, Any]:
    """Return an image's row for a table: its answers as text, and a column for each choice that people had."""
    votes = row.get("votes", {})
    return {
        **{key: value for key, value in row.items() if key != "votes"},
        "taken_for": ", ".join(f"{name} {count}x" for name, count in row["taken_for"].items()),
        **{f"people_{key}": votes.get(key, "") for key in ("for_label", "for_guess", "for_neither")},
    }


def draw(subject: Subject, rows: Sequence[dict[str, Any]], runs: int, out: Path) -> list[Path]:
    """Draw images with how many of the runs miss them and what for; a red title where people dispute the label."""
    columns = min(10, len(rows))
    lines = -(-len(rows) // columns)
    figure = new_figure(1.1 * columns + 0.3, 1.45 * lines + 0.5)
    grid = figure.subplots(lines, columns, squeeze=False)
    pictures = subject.shown(subject.batch(torch.tensor([row["index"] for row in rows])).images)
    for n in range(lines * columns):
        axes = grid[n // columns][n % columns]
        if n >= len(rows):
            axes.axis("off")
            continue
        row = rows[n]
        show_picture(axes, pictures[n])
        answer = next(iter(row["taken_for"]))
        axes.set_title(
            f"{row['label']} for {answer}: {row['missed_by']}",
            fontsize=6.5,
            color=VERMILLION if "votes" in row else "black",
        )
    figure.suptitle(
        f"{subject.dataset.name}: missed by how many of {runs} networks (label, most frequent answer); "
        "red: no majority of people for the label",
        fontsize=8,
    )
    return save_figure(figure, out, "missed")
