"""What a model costs to run here and now: time for one image, training speed and the memory of a training step.

Each model is measured in a process of its own, so that one's memory is not another's. Everything of one table is taken in
one run on one machine; the load is told with it.
"""

import contextlib
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from capsnet.config import Recipe
from capsnet.data.base import Batch
from capsnet.errors import CapsNetError
from capsnet.evaluate.cost import describe_model
from capsnet.models.base import CapsuleModel
from capsnet.registry import create_model
from capsnet.train.loop import training_loss

RECIPE = Recipe(name="cost", epochs=1, batch_size=1, learning_rate=1e-4)


def restart_peak() -> int:
    """Forgets the peak of the memory held so far, where the system can, and gives where it starts from, in bytes."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def peak_memory() -> int:
    """The most memory, in bytes, that this process has held."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def random_batch(model: CapsuleModel, size: int) -> Batch:
    """Images of noise: time and memory do not depend on what they show."""
    images = torch.rand(size, *model.image_shape)
    classes = torch.arange(size) % model.architecture.num_classes
    targets = torch.nn.functional.one_hot(classes, model.architecture.num_classes).float()
    return Batch(images, targets, classes[:, None], images[:, None])


def median_seconds(call: Callable[[], object], seconds: float, *, warm_up: int = 2, least: int = 3) -> float:
    """The median of repeated calls over some `seconds`."""
    for _ in range(warm_up):
        call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < least:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def measure_here(name: str, batch_size: int, seconds: float, shape: dict[str, Any]) -> dict[str, Any]:
    """Parameters, operations, ms for one image, training images/s and the memory that training took above the model's."""
    described = describe_model(name, **shape)
    model = create_model(name, **shape).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0, fused=True)
    one, many = random_batch(model, 1), random_batch(model, batch_size)
    model.eval()
    with torch.inference_mode():
        alone = median_seconds(lambda: model(one.images), seconds)
    model.train()
    before = restart_peak()

    def step() -> None:
        loss = training_loss(model, many, RECIPE, 0.5)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    training = median_seconds(step, seconds, warm_up=1)
    return {
        **described,
        "batch_size": batch_size,
        "milliseconds_per_image": 1000 * alone,
        "training_images_per_second": batch_size / training,
        "training_memory_mib": (peak_memory() - before) / 2**20,
    }


def measure(
    name: str, batch_size: int, seconds: float, threads: int, **shape: tuple[int, int, int] | int
) -> dict[str, Any]:
    """`measure_here` in a process of its own; `shape` is an `image_shape` and `num_classes` other than the model's own."""
    arguments = [name, str(batch_size), str(seconds), str(threads), json.dumps(shape)]
    done = subprocess.run(
        [sys.executable, "-m", "capsnet.evaluate.speed", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise CapsNetError(
            f"Measuring '{name}' at batch {batch_size} failed: {reason[0]}; try a smaller --batch."
        )
    return json.loads(done.stdout)


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[4]))
    print(
        json.dumps(measure_here(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[5])))
    )
