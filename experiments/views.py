"""What an average over views of each image gives on held-out writers: the loss and the errors of fold runs, for several views.

    python experiments/views.py ../runs/folds/fast-fold*-s0 --views shift turn=3 turn=5 shift,turn --out results/views/fast.json

Runs are those of `capsnet train --hold-out writers --fold K/N`; their last weights judge the images that each held out, all
runs together. The test set is not read, so the views may be chosen by what this says. A run that is still going counts with
the weights of its last whole epoch, and the file says which that is.
"""

import argparse
from pathlib import Path
from typing import Any

import torch

from capsnet.evaluate.out_of_fold import Candidate, held_out, judge
from capsnet.evaluate.predictions import Predictions
from capsnet.files import write_json
from capsnet.saving import load_card
from capsnet.train.provenance import provenance

PLAIN = "plain"


def judge_views(runs: list[Path], views: str | None) -> dict[str, Any]:
    """Return the loss and the errors of all runs' held-out images together."""
    parts = [held_out(run, None, views) for run in runs]
    scores, classes = (torch.cat([part[n] for part in parts]) for n in (1, 2))
    found = judge([Candidate(views or PLAIN, {}, Predictions(scores, classes))])
    return {"views": views, "images": len(classes), "loss": found.loss, "errors": found.errors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--views", nargs="+", required=True, help="each as for capsnet eval --views")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write everything to this JSON file too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for views in [None, *options.views]:
        rows.append(row := judge_views(options.runs, views))
        print(
            f"{views or PLAIN:24} loss {row['loss']:.6f}  errors {row['errors']} of {row['images']}",
            flush=True,
        )
    if options.out:
        cards = [load_card(run / "last").provenance for run in options.runs]
        told = [
            {key: card.get(key) for key in ("recipe", "seed", "fold", "hold_out", "epochs")} for card in cards
        ]
        origin = provenance(torch.device("cpu"), options.threads)
        write_json(options.out, {"runs": told, "rows": rows, **origin})


if __name__ == "__main__":
    main()
