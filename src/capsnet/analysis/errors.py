"""The misclassified images, the most confident mistakes first, each with the length of every capsule.

The paper claims that they are ambiguous and that the lengths show it; the table counts how many are.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capsnet.analysis.plotting import BLUE, GREY, VERMILLION, new_figure, save_figure, show_picture, write_csv
from capsnet.analysis.subject import Subject

UNSURE = 0.2  # the lead of the wrong class under which a mistake counts as a close call
MOST = 40


def find_errors(subject: Subject, indices: Tensor) -> list[dict[str, Any]]:
    """Return one entry per mistake, the most confident first."""
    found = []
    for part in indices.split(1000):
        batch = subject.batch(part)
        scores = subject.run(batch.images).scores
        best, labels = scores.argmax(dim=1), batch.classes[:, 0]
        for n in torch.nonzero(best != labels).flatten().tolist():
            second = int(scores[n].topk(2).indices[1])
            found.append(
                {
                    "index": int(part[n]),
                    "label": int(labels[n]),
                    "found": int(best[n]),
                    "score": float(scores[n, best[n]]),
                    "label_score": float(scores[n, labels[n]]),
                    "label_is_second": second == int(labels[n]),
                    "scores": scores[n].tolist(),
                }
            )
    return sorted(found, key=lambda entry: -entry["score"])


def analyse(subject: Subject, indices: Tensor, out: Path, *, most: int = MOST) -> dict[str, Any]:
    """Draw up to `most` mistakes and write all of them."""
    found = find_errors(subject, indices)
    files = draw(subject, found[:most], out) if found else []
    names = subject.dataset.class_names
    rows = [
        {
            **{k: entry[k] for k in ("index", "label", "found", "score", "label_score", "label_is_second")},
            **{f"score {name}": score for name, score in zip(names, entry["scores"], strict=True)},
        }
        for entry in found
    ]
    write_csv(out / "errors.csv", rows)
    close = [entry for entry in found if entry["score"] - entry["label_score"] < UNSURE]
    return {
        "images": len(indices),
        "errors": len(found),
        "error_percent": round(100 * len(found) / len(indices), 6),
        "label_is_second": sum(entry["label_is_second"] for entry in found),
        "close_calls": len(close),
        "close_call_lead": UNSURE,
        "mistakes": found,
        "files": [str(f) for f in files],
    }


def draw(subject: Subject, found: list[dict[str, Any]], out: Path) -> list[Path]:
    """Draw each mistake: the picture, and one bar per class; the label is blue, the prediction vermillion."""
    columns = min(8, len(found))
    rows = -(-len(found) // columns)
    figure = new_figure(1.15 * columns + 0.3, 1.9 * rows + 0.4)
    grid = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=[1.4, 1.0] * rows)
    pictures = subject.shown(subject.batch(torch.tensor([entry["index"] for entry in found])).images)
    names = subject.dataset.class_names
    # Digits name their bars; longer names would overlap and are left to the title.
    short = max(map(len, names)) == 1
    for n in range(rows * columns):
        picture, bars = grid[n // columns * 2][n % columns], grid[n // columns * 2 + 1][n % columns]
        if n >= len(found):
            picture.axis("off")
            bars.axis("off")
            continue
        entry = found[n]
        show_picture(picture, pictures[n])
        picture.set_title(f"{names[entry['label']]} taken for {names[entry['found']]}", fontsize=7)
        colours = [
            BLUE if j == entry["label"] else VERMILLION if j == entry["found"] else GREY
            for j in range(len(names))
        ]
        bars.bar(range(len(names)), entry["scores"], color=colours)
        bars.set_ylim(0, 1)
        bars.set_yticks([0, 1] if n % columns == 0 else [], ["0", "1"] if n % columns == 0 else [])
        bars.set_xticks(range(len(names)) if short else [], names if short else [], fontsize=5.5)
        bars.tick_params(length=0, pad=1)
    figure.suptitle(
        f"{subject.name}: mistakes, the most confident first; capsule lengths (blue: the label, vermillion: the prediction)",
        fontsize=8,
    )
    return save_figure(figure, out, "errors")
