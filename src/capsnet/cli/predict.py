"""`capsnet predict`."""

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text
from tyro.conf import Positional

from capsnet.cli import console
from capsnet.cli.options import Files, Flag


def predict(weights: Positional[str], images: Files, /, *, json: Flag = False) -> None:
    """Say what is in pictures.

    Args:
        weights: A run folder, a weights folder, a bundled name such as efficient_capsnet.mnist, or an exported .onnx file.
        images: Picture files of any size; prepared as the weights' pre-processing says.
        json: Print one JSON document.
    """
    from capsnet.predict import predict_files

    predictions = predict_files(weights, images)
    if json:
        console.print_json(predictions)
        return
    for prediction in predictions:
        _show(prediction)


def _show(prediction: dict[str, Any]) -> None:
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    for name, score in prediction["scores"].items():
        table.add_row(
            name,
            f"{score:.3f}",
            "█" * round(30 * score),
            style="bold" if name == prediction["class"] else "dim",
        )
    line = Text.assemble(
        f"{prediction['file']}: ", (prediction["class"], "bold"), f" ({prediction['score']:.3f})"
    )
    console.out.print(line, highlight=False)
    if not prediction["likely"]:
        console.out.print(
            "There is no ink, or every capsule is short: probably none of the classes.", style="yellow"
        )
    console.out.print(table)
