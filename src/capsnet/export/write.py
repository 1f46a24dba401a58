"""`capsnet export`: trace, compare with torch, quantise if asked to, test, and only then keep the files.

The folder appears complete or not at all: encoder.onnx, decoder.onnx (where there is one), model.onnx and card.json.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import torch

import capsnet
from capsnet.data.base import DataSet
from capsnet.errors import CapsNetError
from capsnet.export import parity
from capsnet.export.accuracy import evaluate_file
from capsnet.export.detection import fit_to_files
from capsnet.export.einsum import einsums_to_products
from capsnet.export.fold import fold_batch_norms
from capsnet.export.graph import drop_unused_constants, fold_constant_reshapes, strip
from capsnet.export.images import calibration_images, parity_images
from capsnet.export.metadata import FileCard, write_metadata
from capsnet.export.parts import cut
from capsnet.export.quantise import quantise
from capsnet.export.trace import OPSET, trace
from capsnet.files import atomic_write, new_folder, write_json
from capsnet.models.base import CapsuleModel

FORMATS = ("onnx", "int8")
CARD = "card.json"
DETECTION_IMAGES = 2000


def build_graph(model: CapsuleModel, *, coupling: bool = False) -> onnx.ModelProto:
    """Build the whole model's float32 graph, without the exporter's notes."""
    graph = trace(model, coupling=coupling)
    fold_batch_norms(graph)
    fold_constant_reshapes(graph)
    einsums_to_products(graph)
    strip(graph)
    drop_unused_constants(graph)
    return graph


def export_model(
    model: CapsuleModel,
    out: Path,
    *,
    format: str = "onnx",
    dataset: DataSet | None = None,
    why_no_dataset: str = "no data set was given",
    parts: Sequence[str] = ("encoder", "decoder", "model"),
    coupling: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Write a model's files into the new folder `out`, and return the content of its card.json.

    Args:
        format: "onnx" (float32) or "int8".
        dataset: the files are tested on its test images, and int8 is calibrated on its training images.
        why_no_dataset: the reason that the card gives when float32 files are compared on random images.
        parts: the files to write.
        coupling: whether coupling is an output too, where the model has it.
        say: is called with each step's description.
    """
    if format not in FORMATS:
        raise CapsNetError(f"There is no format '{format}'; there are: {', '.join(FORMATS)}.")
    if format == "int8" and dataset is None:
        raise CapsNetError(f"int8 is calibrated on training images, but {why_no_dataset}; name a data set.")
    name, card = model.architecture.name, model.card.without_places()
    # The files are for a CPU and tested on one; the caller's model stays on its device.
    model = model if next(model.parameters()).device.type == "cpu" else _copy_to_cpu(model)
    model.eval()
    with new_folder(out) as folder:
        say("Tracing the network")
        graph = build_graph(model, coupling=coupling)
        images, source = parity_images(model, dataset, why_no_dataset)
        say(f"Comparing with torch on {len(images)} images ({source})")
        expected = parity.torch_outputs(model, images, coupling=coupling)
        protos = _only(parts, cut(graph))

        def compare() -> dict[str, dict[str, float]]:
            return {
                part: parity.compare(proto.SerializeToString(), expected, images.numpy())
                for part, proto in protos.items()
            }

        if format == "onnx":
            _describe(protos, FileCard(model.architecture, card, "", format))
        differences = compare()
        parity.check(differences, name)
        judged = {"float32": differences}
        if format == "int8":
            assert dataset is not None
            say("Quantising")
            float_encoder = protos["encoder"].SerializeToString()
            cut_int8 = cut(quantise(graph, calibration_images(dataset).numpy()))
            protos = _only(parts, cut_int8)
            say(f"Testing on the {dataset.name} test set, in float32 and in int8")
            card = replace(
                card, score={**card.score, **_scores(float_encoder, protos["encoder"], model, dataset)}
            )
            if detector := card.detector(model.architecture.num_classes):
                say("Calibrating detection for int8")
                known = calibration_images(dataset, DETECTION_IMAGES).numpy()
                parts_of_files = {part: proto.SerializeToString() for part, proto in cut_int8.items()}
                told_on = f"{len(known)} training images"
                refitted = fit_to_files(parts_of_files, known, told_on, detector.false_alarm)
                card = replace(card, detection=refitted.to_dict())
            _describe(protos, FileCard(model.architecture, card, "", format))
            judged["int8"] = compare()
        files = {f"{part}.onnx": proto.SerializeToString() for part, proto in protos.items()}
        for file, content in files.items():
            atomic_write(folder / file, content)
        told = {
            "model": name,
            "image_shape": list(model.image_shape),
            "num_classes": model.architecture.num_classes,
            "options": model.architecture.options,
            **card.to_dict(),
            "export": {
                "format": format,
                "opset": OPSET,
                "files": {file: _describe_file(content) for file, content in files.items()},
                "parity": {
                    "images": len(images),
                    "from": source,
                    "tolerance": parity.TOLERANCE,
                    "largest_relative_difference": judged,
                },
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "versions": {
                    "capsnet": capsnet.__version__,
                    **{
                        package: version(package)
                        for package in ("torch", "onnx", "onnxscript", "onnxruntime")
                    },
                },
            },
        }
        write_json(folder / CARD, told)
    return told


def _only(parts: Sequence[str], protos: dict[str, onnx.ModelProto]) -> dict[str, onnx.ModelProto]:
    return {part: proto for part, proto in protos.items() if part in parts}


def _scores(
    float_encoder: bytes, encoder: onnx.ModelProto, model: CapsuleModel, dataset: DataSet
) -> dict[str, Any]:
    """Return both formats' errors on the whole test set, and the difference in percentage points."""
    before = evaluate_file(float_encoder, model, dataset)
    after = evaluate_file(encoder.SerializeToString(), model, dataset)
    return {
        **before.named_errors("float32_test_"),
        **after.named_errors("int8_test_"),
        "int8_points_lost": round(after.error_percent - before.error_percent, 6),
        "test_images": after.images,
    }


def _describe(parts: dict[str, onnx.ModelProto], card: FileCard) -> None:
    for part, proto in parts.items():
        proto.producer_name, proto.producer_version = "capsnet", capsnet.__version__
        write_metadata(proto, replace(card, part=part))


def _describe_file(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _copy_to_cpu(model: CapsuleModel) -> CapsuleModel:
    import copy

    copied: CapsuleModel = copy.deepcopy(model).to(torch.device("cpu"))
    return copied
