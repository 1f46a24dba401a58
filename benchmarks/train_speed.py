"""How fast the training loop is: whole-loop images/s against the bare forward + backward + step on a fixed batch, and its
operations a second against those of the same convolutions alone, forward and backward on fixed inputs, PyTorch's and those
that training takes; these in turn. Operations are those of the direct way, whichever way is taken.

Also measured, one after the other: the memory layouts, eager against compiled, and the optimiser's forms, on the bare step.
See README.md for how a number is taken.

    python benchmarks/train_speed.py [--threads 2] [--seconds 12] [--precision bf16] [--batch 16 64] [--record]

`--record` keeps the numbers in results/train_speed, a file for each precision and number of threads.
"""

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

import capsnet
from capsnet.config import Config
from capsnet.data import load_dataset
from capsnet.data.base import Batch
from capsnet.devices import set_threads
from capsnet.files import write_json
from capsnet.kernels import winograd
from capsnet.machine import load_average
from capsnet.train.callbacks import Callback
from capsnet.train.loop import Training
from capsnet.train.loop import train as run_training
from capsnet.train.prepare import plan_run
from capsnet.train.provenance import provenance
from capsnet.train.recipes import get_recipe
from capsnet.train.step import Learner

RESULTS = Path(__file__).resolve().parent.parent / "results" / "train_speed"
BLOCK = 10  # steps
PYTORCH, TRAINED = "convolutions alone", "convolutions alone, as trained"


def bare_step(
    batch_size: int, precision: str, *, channels_last: bool, fused: bool, compiled: bool
) -> Callable[[], object]:
    """Return one training step on a batch that never changes."""
    torch.manual_seed(0)
    dataset = load_dataset("mnist")
    recipe = dataclasses.replace(
        get_recipe("quick", "mnist", "efficient_capsnet"), learning_rate=1e-4, average=None
    )
    rows = torch.arange(batch_size)
    batch: Batch = next(dataset.evaluation_batches(dataset.train.select(rows), batch_size))
    model = capsnet.create_model("efficient_capsnet")
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    learner = Learner(model.train(), recipe, plan_run(recipe, 60_000), precision=precision, compile=compiled)
    if not fused:
        learner.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, eps=1e-7, weight_decay=0)
    return lambda: learner.step(batch, 1000)


def convolutions_alone(batch_size: int, precision: str, *, as_trained: bool) -> Callable[[], object]:
    """The blocks' convolutions one after the other, each on an input of its own shape; all gradients that training needs.
    `as_trained`: by Winograd where training does so, not all of them by PyTorch."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = capsnet.create_model("efficient_capsnet").to(memory_format=torch.channels_last)
    calls: list[tuple[torch.nn.Conv2d, torch.Tensor, torch.Tensor]] = []

    def note(layer: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        assert isinstance(layer, torch.nn.Conv2d)
        given = inputs[0].detach().to(dtype).contiguous(memory_format=torch.channels_last)
        calls.append((layer, given.requires_grad_(bool(calls)), torch.ones_like(output, dtype=dtype)))

    layers = [block.conv for block in model.encoder.blocks]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    model.eval()(torch.rand(batch_size, 1, 28, 28))
    for hook in hooks:
        hook.remove()
    by_winograd = {
        layer
        for layer, given, _ in calls
        if as_trained and given.requires_grad and winograd.takes(given, layer.weight, layer.stride)
    }
    for layer in set(layers) - by_winograd:  # Winograd's way takes kernels in float32 to maps of both kinds
        layer.to(dtype)

    def step() -> None:
        for layer, given, gradient in calls:
            if layer in by_winograd:
                with torch.no_grad():
                    winograd.convolve(given, layer.weight, layer.bias, layer.stride[0])
                    winograd.convolve_backward(gradient, given, layer.weight, layer.stride[0])
                continue
            wanted = [layer.weight, *([given] if given.requires_grad else [])]
            # Not by calling the module: the counter of operations cannot follow that into `grad`.
            output = torch.nn.functional.conv2d(given, layer.weight, layer.bias, layer.stride)
            torch.autograd.grad(output, wanted, gradient)

    return step


def operations(step: Callable[[], object]) -> int:
    """Of one call, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def summary(seconds: list[float], batch_size: int) -> dict[str, float]:
    """Median images/s and the spread between quartiles."""
    low, median, high = statistics.quantiles([batch_size / s for s in seconds], n=4)
    return {"images_per_second": round(median, 1), "spread": round(high - low, 1), "steps": len(seconds)}


def timed(step: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def measure(step: Callable[[], object], batch_size: int, seconds: float) -> dict[str, float]:
    """Images/s over repeated steps."""
    for _ in range(5):
        step()
    taken, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 5:
        taken.append(timed(step))
    return summary(taken, batch_size)


class Alternating(Callback):
    """Times the real loop's steps and, after every few of them, as many of each other step: what slows the machine down
    meanwhile slows all of them. A block's first step only warms up."""

    def __init__(self, others: dict[str, Callable[[], object]]) -> None:
        self.others = others
        self.seconds: dict[str, list[float]] = {name: [] for name in ("loop", *others)}
        self.count = 0
        self.last: float | None = None

    def on_step(self, run: Training) -> None:
        now = time.perf_counter()
        self.count += 1
        if self.last is not None and self.count > 2 * BLOCK:
            self.seconds["loop"].append(now - self.last)
        self.last = now
        if self.count % BLOCK == 0:
            for name, other in self.others.items():
                other()
                self.seconds[name] += [timed(other) for _ in range(BLOCK - 1)]
            self.last = None


def whole_loop(
    batch_size: int, precision: str, seconds: float, threads: int, others: dict[str, Callable[[], object]]
) -> dict[str, dict[str, float]]:
    """Images/s of `capsnet train`'s own loop (data, augmentation, step, progress, state) and of the other steps in between."""
    steps = 4 * BLOCK + int(seconds / timed(others["bare step"]))
    recipe = dataclasses.replace(
        get_recipe("quick", "mnist", "efficient_capsnet"), epochs=1, least_steps=0, batch_size=batch_size
    )
    config = Config(
        "mnist",
        "efficient_capsnet",
        recipe,
        validation=0,
        limit=min(60000, steps * batch_size),
        threads=threads,
        precision=precision,  # type: ignore[arg-type]
    )
    times = Alternating(others)
    with tempfile.TemporaryDirectory() as folder:
        run_training(config, Path(folder) / "run", callbacks=[times])
    return {name: summary(taken, batch_size) for name, taken in times.seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    parser.add_argument("--batch", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    threads, precision = set_threads(options.threads), options.precision
    batches: dict[str, dict[str, Any]] = {}
    result: dict[str, Any] = {
        "precision": precision,
        **provenance(torch.device("cpu"), threads),
        "load_before": load_average(),
        "batches": batches,
    }
    for batch_size in options.batch:
        forms = {
            "channels first": {"channels_last": False, "fused": True, "compiled": False},
            "channels last": {"channels_last": True, "fused": True, "compiled": False},
            "channels last, optimiser not fused": {"channels_last": True, "fused": False, "compiled": False},
            "channels last, compiled": {"channels_last": True, "fused": True, "compiled": True},
        }
        part = batches[str(batch_size)] = {"forms": {}}
        for name, form in forms.items():
            part["forms"][name] = measure(
                bare_step(batch_size, precision, **form), batch_size, options.seconds
            )
            print(f"batch {batch_size:3d}  bare step, {name:36s} {part['forms'][name]}")
        others = {
            "bare step": bare_step(batch_size, precision, **forms["channels last"]),
            PYTORCH: convolutions_alone(batch_size, precision, as_trained=False),
            TRAINED: convolutions_alone(batch_size, precision, as_trained=True),
        }
        loop = whole_loop(batch_size, precision, options.seconds, threads, others)
        rates = {name: row["images_per_second"] for name, row in loop.items()}
        per_image = {name: operations(others[name]) / batch_size for name in ("bare step", PYTORCH)}
        giga = {
            "loop": per_image["bare step"] * rates["loop"] / 1e9,
            PYTORCH: per_image[PYTORCH] * rates[PYTORCH] / 1e9,
            TRAINED: per_image[PYTORCH] * rates[TRAINED] / 1e9,
        }
        part |= {
            "in turn": loop,
            "share of the bare step": round(rates["loop"] / rates["bare step"], 3),
            "billion operations a second": {name: round(value, 1) for name, value in giga.items()},
            **{f"share of the {name}": round(giga["loop"] / giga[name], 3) for name in (PYTORCH, TRAINED)},
        }
        print(
            f"batch {batch_size:3d}  whole loop {rates['loop']:.0f} images/s, "
            f"{100 * part['share of the bare step']:.1f} % of the bare step; {giga['loop']:.1f} billion operations/s, "
            f"{100 * part[f'share of the {PYTORCH}']:.1f} % of PyTorch's convolutions', "
            f"{100 * part[f'share of the {TRAINED}']:.1f} % of those that training takes"
        )
    result["load_after"] = load_average()
    if options.record:
        write_json(RESULTS / f"{precision}-{threads}.json", result)


if __name__ == "__main__":
    main()
