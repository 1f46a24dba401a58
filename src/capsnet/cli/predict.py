"""`capsnet predict`."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from rich import box
from rich.table import Table
from rich.text import Text
from tyro.conf import Positional

from capsnet.cli import console
from capsnet.cli.options import Files, Flag, Maybe
from capsnet.data.listing import printable
from capsnet.errors import CapsNetError
from capsnet.files import replacing
from capsnet.wording import counted

FIRST_COLUMNS = ("file", "class", "score", "likely", "reason", "error")
IN_FULL = 10  # pictures whose scores are all drawn


def predict(
    weights: Positional[str],
    images: Files,
    /,
    *,
    out: Maybe[Path] = None,
    top_k: Maybe[int] = None,
    device: str = "auto",
    json: Flag = False,
) -> None:
    """Classify pictures.

    A picture that cannot be read is reported and does not stop the others; the exit code is then 1, or 2 if none can be read.

    Args:
        weights: A run folder, a weights folder, a bundled name such as efficient_capsnet.mnist, or an exported .onnx file or
            the folder of an export.
        images: Picture files of any size, folders, and patterns such as 'photos/*.jpg'; prepared as the weights'
            pre-processing says.
        out: Write one row per picture to this file: .csv, or .jsonl for one JSON object per line.
        top_k: Show only the K best classes of each picture; all when left out.
        device: auto, cpu, cuda or mps.
        json: Print one JSON document: a list of the pictures that can be read.
    """
    from capsnet.predict import predict_all

    write = _choose_writer(out, top_k is not None) if out else None
    seen = Seen(predict_all(weights, images, device=device, top=top_k))
    if out and write:
        with replacing(out) as place, place.open("w", encoding="utf-8", newline="") as file:
            write(file, seen)
            seen.require_some()
        console.out.print(f"{out}: {counted(seen.good, 'picture')}", highlight=False, soft_wrap=True)
    elif json:
        predictions = [prediction for prediction in seen if "error" not in prediction]
        seen.require_some()
        console.print_json(predictions)
    else:
        for prediction in seen:
            if "error" not in prediction:
                _show(prediction, full=seen.good <= IN_FULL)
        seen.require_some()
    if seen.bad:
        _complain(f"{seen.bad} of {seen.good + seen.bad} pictures cannot be read.")
        sys.exit(1)


class Seen:
    """Predictions on their way, counted; what cannot be read is told as it comes."""

    def __init__(self, predictions: Iterable[dict[str, Any]]) -> None:
        self.predictions, self.good, self.bad = predictions, 0, 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for prediction in self.predictions:
            if "error" in prediction:
                self.bad += 1
                _complain(prediction["error"])
            else:
                self.good += 1
            yield {**prediction, "file": printable(prediction["file"])}

    def require_some(self) -> None:
        """End as after any mistake if nothing could be read: with exit code 2, and nothing written."""
        if not self.good:
            sys.exit(2)


Writer = Callable[[TextIO, Iterable[dict[str, Any]]], None]


def _choose_writer(out: Path, ranked: bool) -> Writer:
    writers: dict[str, Writer] = {".csv": partial(write_csv, ranked=ranked), ".jsonl": write_json_lines}
    if out.suffix.lower() not in writers:
        raise CapsNetError(f"--out is a file ending in {' or '.join(writers)}, not '{out}'.")
    return writers[out.suffix.lower()]


def write_json_lines(file: TextIO, predictions: Iterable[dict[str, Any]]) -> None:
    """One JSON object per picture: a prediction, or `file` and `error`."""
    for prediction in predictions:
        file.write(json.dumps(prediction, ensure_ascii=False) + "\n")


def write_csv(file: TextIO, predictions: Iterable[dict[str, Any]], *, ranked: bool) -> None:
    """One row per picture: the best class, then the score of every class or, `ranked`, the next best classes in order."""
    writer = csv.writer(file, lineterminator="\n")
    waiting: list[dict[str, Any]] = []  # until the first picture that can be read tells the columns
    begun = False
    for prediction in predictions:
        waiting.append(prediction)
        if not begun and "scores" in prediction:
            names = list(prediction["scores"])
            places = [(f"class {n}", f"score {n}") for n in range(2, len(names) + 1)]
            rest = (
                [cell for pair in places for cell in pair] if ranked else [f"score {name}" for name in names]
            )
            writer.writerow([*FIRST_COLUMNS, *rest])
            begun = True
        if begun:
            writer.writerows(_cells(row, ranked) for row in waiting)
            waiting.clear()


def _cells(prediction: dict[str, Any], ranked: bool) -> list[Any]:
    if "error" in prediction:
        return [prediction["file"], "", "", "", "", prediction["error"]]
    scores = list(prediction["scores"].items())
    rest = [cell for pair in scores[1:] for cell in pair] if ranked else [score for _, score in scores]
    first = [prediction[name] for name in FIRST_COLUMNS[:-1]]
    return [*first, "", *rest]


def _complain(sentence: str) -> None:
    console.errors.print(f"capsnet: {printable(sentence)}", highlight=False, soft_wrap=True)


def _show(prediction: dict[str, Any], *, full: bool) -> None:
    line = Text.assemble(
        f"{prediction['file']}: ", (prediction["class"], "bold"), f" ({prediction['score']:.3f})"
    )
    if not full:
        line.append("" if prediction["likely"] else f", unlikely: {prediction['reason']}", style="yellow")
        console.out.print(line, highlight=False, soft_wrap=True)
        return
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    for name, score in prediction["scores"].items():
        table.add_row(
            name,
            f"{score:.3f}",
            "█" * round(30 * score),
            style="bold" if name == prediction["class"] else "dim",
        )
    console.out.print(line, highlight=False)
    if not prediction["likely"]:
        console.out.print(f"Probably none of the classes: {prediction['reason']}.", style="yellow")
    console.out.print(table)
