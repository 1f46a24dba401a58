"""`capsnet export`."""

import importlib.util
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe, Pairs, parse_pairs
from capsnet.errors import CapsNetError


def export(
    weights: Positional[str],
    /,
    *,
    out: Path,
    format: Literal["onnx", "int8", "web"] = "onnx",
    runtime: Maybe[Path] = None,
    dataset: Maybe[str] = None,
    data_options: Pairs = (),
    data_dir: Maybe[Path] = None,
    json: Flag = False,
) -> None:
    """Write ONNX files, checked against torch before they are kept.

    Args:
        weights: A run folder, a weights folder, or a bundled name such as efficient_capsnet.mnist.
        out: The folder to create; it must be new or empty.
        format: onnx is float32; int8 is a quarter of the size, calibrated on training images and tested; web is the
            playground with the int8 files, a folder for any static file server.
        runtime: For web: the npm package onnxruntime-web, as the file that npm pack writes or as a folder.
        dataset: The data set, by name or path, that the files are tested on; by default the one the weights were trained on.
        data_options: The data set's own options; they override those of training.
        data_dir: The folder to look for data sets in first.
        json: Print the card as one JSON document.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            raise CapsNetError(
                f"Exporting needs {package}, which is not installed: pip install 'capsnet[onnx]'."
            )
    from capsnet.export.images import find_dataset
    from capsnet.export.write import export_model
    from capsnet.opening import open_weights

    if (format == "web") != (runtime is not None):
        raise CapsNetError("--format web and --runtime go together: the page needs npm's onnxruntime-web.")
    opened = open_weights(weights, dataset, data_dir=data_dir, **parse_pairs(data_options, "--data-options"))
    found, why_not = find_dataset(opened, required=dataset is not None)
    if found is None and format == "onnx":
        console.errors.print(
            f"Random images are compared, since {why_not}.", style="yellow", markup=False, soft_wrap=True
        )

    def say(text: str) -> None:
        console.errors.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)

    if runtime is not None:
        from capsnet.serve.web import export_web

        card = export_web(opened, out, runtime, dataset=found, why_no_dataset=why_not, say=say)
    else:
        card = export_model(opened.model, out, format=format, dataset=found, why_no_dataset=why_not, say=say)
    if json:
        console.print_json(card)
    else:
        _show(card, out)
        if runtime is not None:
            total = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
            console.out.print(
                f"{out}: {total / 1e6:.1f} MB, for any static file server, such as python -m http.server -d {out}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )


def _show(card: dict[str, Any], out: Path) -> None:
    export = card["export"]
    for file, told in export["files"].items():
        console.out.print(
            f"{out / file}: {told['bytes'] / 1e6:.3f} MB", markup=False, highlight=False, soft_wrap=True
        )
    differences = export["parity"]["largest_relative_difference"]["float32"].values()
    worst = max(value for outputs in differences for value in outputs.values())
    console.out.print(
        f"Largest relative difference from torch in float32: {worst:.1e} "
        f"on {export['parity']['images']} images ({export['parity']['from']}).",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    if "int8_points_lost" in card["score"]:
        errors = ", ".join(
            f"{key.removesuffix('_percent').replace('_', ' ')} {value:.2f} %"
            for key, value in card["score"].items()
            if key.startswith(("float32_test", "int8_test"))
        )
        console.out.print(
            f"On {card['score']['test_images']:,} test images: {errors}.", highlight=False, soft_wrap=True
        )
