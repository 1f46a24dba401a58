"""How fast the training loop is: whole-loop images/s against the bare forward + backward + step on a fixed batch.

Also measured in the same run: the memory layouts, eager against compiled, and the optimiser's forms, on the bare step; and the
same convolutions alone, forward and backward on fixed inputs, whose operations a second are what the loop's are set against.
See README.md for how a number is taken.

    python benchmarks/train_speed.py [--threads 2] [--seconds 12] [--precision bf16]
"""

import argparse
import dataclasses
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

import capsnet
from capsnet.config import Config
from capsnet.data import load_dataset
from capsnet.data.base import Batch
from capsnet.train.loop import train as run_training
from capsnet.train.loop import training_loss
from capsnet.train.prepare import set_threads
from capsnet.train.progress import Silent
from capsnet.train.provenance import provenance
from capsnet.train.recipes import get_recipe


def bare_step(
    batch_size: int, precision: str, *, channels_last: bool, fused: bool, compiled: bool
) -> Callable[[], None]:
    """One forward, backward and optimiser step on a batch that never changes."""
    torch.manual_seed(0)
    dataset = load_dataset("mnist")
    recipe = get_recipe("quick", "mnist", "efficient_capsnet")
    rows = torch.arange(batch_size)
    batch: Batch = next(dataset.evaluation_batches(dataset.train.select(rows), batch_size))
    model = capsnet.create_model("efficient_capsnet")
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    if compiled:
        model.encoder.compile()
        model.decoder.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, eps=1e-7, weight_decay=0, fused=fused)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = training_loss(model, batch, recipe, 0.5)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def convolutions_alone(batch_size: int, precision: str) -> Callable[[], None]:
    """The blocks' convolutions one after the other, each on an input of its own shape; all gradients that training needs."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = capsnet.create_model("efficient_capsnet").to(memory_format=torch.channels_last)
    calls: list[tuple[torch.nn.Conv2d, torch.Tensor, torch.Tensor]] = []

    def note(layer: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        assert isinstance(layer, torch.nn.Conv2d)
        given = inputs[0].detach().to(dtype).contiguous(memory_format=torch.channels_last)
        calls.append((layer, given.requires_grad_(bool(calls)), torch.ones_like(output, dtype=dtype)))

    layers = [block.conv for block in model.encoder.blocks]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    model(torch.rand(batch_size, 1, 28, 28))
    for hook in hooks:
        hook.remove()
    model.to(dtype)

    def step() -> None:
        for layer, given, gradient in calls:
            wanted = [layer.weight, *([given] if given.requires_grad else [])]
            # Not by calling the module: the counter of operations cannot follow that into `grad`.
            output = torch.nn.functional.conv2d(given, layer.weight, layer.bias, layer.stride)
            torch.autograd.grad(output, wanted, gradient)

    return step


def operations(step: Callable[[], None]) -> int:
    """Of one call, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def measure(step: Callable[[], None], batch_size: int, seconds: float) -> dict[str, float]:
    """Median images/s over repeated steps, and the spread between quartiles."""
    for _ in range(5):
        step()
    rates, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(rates) < 5:
        began = time.perf_counter()
        step()
        rates.append(batch_size / (time.perf_counter() - began))
    low, median, high = statistics.quantiles(rates, n=4)
    return {"images_per_second": round(median, 1), "spread": round(high - low, 1), "steps": len(rates)}


class StepTimes(Silent):
    """Notes when each step of the real loop ended."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, int]] = []

    def step(self, images: int, loss: float, rate: float) -> None:
        self.ends.append((time.perf_counter(), images))


def whole_loop(
    batch_size: int, precision: str, seconds: float, threads: int, rate: float
) -> dict[str, float]:
    """Images/s of `capsnet train`'s own loop: data, augmentation, step, progress, state; the first steps not counted."""
    images = max(60 * batch_size, int(seconds * rate))
    recipe = dataclasses.replace(
        get_recipe("quick", "mnist", "efficient_capsnet"), epochs=1, least_steps=0, batch_size=batch_size
    )
    config = Config(
        "mnist",
        "efficient_capsnet",
        recipe,
        validation=0,
        limit=min(60000, images),
        threads=threads,
        precision=precision,  # type: ignore[arg-type]
    )
    times = StepTimes()
    with tempfile.TemporaryDirectory() as folder:
        run_training(config, Path(folder) / "run", reporter=times)
    ends = times.ends[5:]
    gaps = [(b[0] - a[0], b[1]) for a, b in itertools.pairwise(ends)]
    rates = [n / gap for gap, n in gaps]
    low, median, high = statistics.quantiles(rates, n=4)
    return {"images_per_second": round(median, 1), "spread": round(high - low, 1), "steps": len(rates)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    threads, precision = set_threads(options.threads), options.precision
    result: dict[str, object] = {
        "precision": precision,
        **provenance(torch.device("cpu"), threads),
        "load_before": [round(x, 2) for x in os.getloadavg()],
    }
    print(json.dumps(result), file=sys.stderr)
    for batch_size in (16, 64):
        forms = {
            "channels first": {"channels_last": False, "fused": True, "compiled": False},
            "channels last": {"channels_last": True, "fused": True, "compiled": False},
            "channels last, optimiser not fused": {"channels_last": True, "fused": False, "compiled": False},
        }
        part: dict[str, object] = {}
        for name, form in forms.items():
            part[name] = measure(bare_step(batch_size, precision, **form), batch_size, options.seconds)
            print(f"batch {batch_size:3d}  bare step, {name:36s} {part[name]}", file=sys.stderr)
        bare = part["channels last"]["images_per_second"]  # type: ignore[index]
        loop = whole_loop(batch_size, precision, options.seconds, threads, bare)
        again = measure(
            bare_step(batch_size, precision, **forms["channels last"]), batch_size, options.seconds
        )
        compiled = bare_step(batch_size, precision, channels_last=True, fused=True, compiled=True)
        part["channels last, compiled"] = measure(compiled, batch_size, options.seconds)
        part["whole loop"] = loop
        part["channels last, again after the loop"] = again
        share = loop["images_per_second"] / statistics.mean([bare, again["images_per_second"]])
        part["share of the bare step"] = round(share, 3)
        alone = convolutions_alone(batch_size, precision)
        part["convolutions alone"] = measure(alone, batch_size, options.seconds)
        per_step = {
            "loop": operations(bare_step(batch_size, precision, **forms["channels last"])),
            "alone": operations(alone),
        }
        rates = {
            "loop": loop["images_per_second"],
            "alone": part["convolutions alone"]["images_per_second"],  # type: ignore[index]
        }
        giga = {name: per_step[name] * rates[name] / batch_size / 1e9 for name in rates}
        part["billion operations a second"] = {name: round(value, 1) for name, value in giga.items()}
        part["share of the convolutions' operations a second"] = round(giga["loop"] / giga["alone"], 3)
        print(
            f"batch {batch_size:3d}  {giga['loop']:.1f} billion operations/s, "
            f"{100 * giga['loop'] / giga['alone']:.1f} % of the convolutions' {giga['alone']:.1f}",
            file=sys.stderr,
        )
        print(
            f"batch {batch_size:3d}  whole loop {loop}; {100 * share:.1f} % of the bare step", file=sys.stderr
        )
        result[f"batch {batch_size}"] = part
    result["load_after"] = [round(x, 2) for x in os.getloadavg()]
    if options.json:
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
