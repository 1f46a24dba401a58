"""How fast exported files are: ONNX Runtime in float32 and int8 against torch eager, encoder only, in one run.

The three take turns, so that what disturbs one disturbs all. See README.md for how a number is taken. With `--record` the
sizes, the differences from torch and the errors on the test set, from the exports' own cards, are kept with the speeds.

    capsnet export efficient_capsnet.mnist --format onnx --out out/onnx
    capsnet export efficient_capsnet.mnist --format int8 --out out/int8
    python benchmarks/onnx_speed.py efficient_capsnet.mnist out [--record results/export/efficient_capsnet.mnist.json]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import onnxruntime
import torch

import capsnet
from capsnet.data import load_dataset
from capsnet.export.runtime import OnnxModel
from capsnet.files import write_json
from capsnet.machine import cores, load_average
from capsnet.models.base import CapsuleModel
from capsnet.saving import weights_folder
from capsnet.train.provenance import provenance

FORMATS = ("onnx", "int8")


@torch.inference_mode()
def eager(model: CapsuleModel, images: torch.Tensor) -> object:
    """torch as it is, without compiling."""
    return model(images)


def measure(
    calls: dict[str, Callable[[], object]], images: int, seconds: float
) -> dict[str, dict[str, float]]:
    """Milliseconds an image for each call: the median over turns of a quarter of a second, and the spread of quartiles."""
    for call in calls.values():
        for _ in range(10):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or min(map(len, times.values())) < 4:
        for name, call in calls.items():
            began, count = time.perf_counter(), 0
            while time.perf_counter() - began < 0.25:
                call()
                count += 1
            times[name].append(1000 * (time.perf_counter() - began) / (count * images))
    result = {}
    for name, values in times.items():
        low, median, high = statistics.quantiles(values, n=4)
        result[name] = {
            "ms_per_image": round(median, 4),
            "spread": round(high - low, 4),
            "turns": len(values),
        }
    base = result["torch"]["ms_per_image"]
    for name in calls:
        result[name]["times_torch"] = round(base / result[name]["ms_per_image"], 2)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights")
    parser.add_argument("folder", type=Path, help="with the exports in onnx/ and int8/")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each number")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    model = capsnet.load(options.weights)
    cards = {f: json.loads((options.folder / f / "card.json").read_text()) for f in FORMATS}
    dataset = load_dataset(model.card.provenance["dataset"])
    images = next(dataset.evaluation_batches(dataset.test, 64)).images
    load_before = load_average()
    speeds: dict[str, Any] = {}
    for threads in sorted({1, cores()}):
        torch.set_num_threads(threads)
        files = {f: OnnxModel(options.folder / f / "encoder.onnx", threads) for f in FORMATS}
        for batch in (1, 64):
            calls: dict[str, Callable[[], object]] = {"torch": partial(eager, model, images[:batch])}
            for name, file in files.items():
                calls[name] = partial(file.run, {"images": images[:batch].numpy()})
            key = f"threads {threads}, batch {batch}"
            speeds[key] = measure(calls, batch, options.seconds)
            for name, numbers in speeds[key].items():
                print(f"{key:20s} {name:6s} {numbers}", flush=True)
    told = {
        "weights": options.weights,
        "model": model.architecture.name,
        "dataset": dataset.name,
        "torch_bytes": (weights_folder(options.weights) / "model.safetensors").stat().st_size,
        "score": cards["int8"]["score"],
        "exports": {f: card["export"] for f, card in cards.items()},
        "speed": speeds,
        "load_before": load_before,
        "load_after": load_average(),
        **provenance(torch.device("cpu"), max(1, cores())),
    }
    told["versions"] = {**told["versions"], "onnxruntime": onnxruntime.__version__}
    print(f"load before {told['load_before']}, after {told['load_after']}")
    if options.record:
        write_json(options.record, told)


if __name__ == "__main__":
    main()
