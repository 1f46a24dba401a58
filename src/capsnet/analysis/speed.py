"""What a model costs on this machine: time for one image, training speed, and the memory of a training step.

Each model is measured in its own process, so that their memory is counted separately. All rows of a table come from one run
on one machine, and the machine's load is recorded with them.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from capsnet.config import Recipe
from capsnet.data.base import Batch
from capsnet.errors import CapsNetError
from capsnet.evaluate.cost import describe_model
from capsnet.machine import peak_memory, reset_peak_memory
from capsnet.models.base import CapsuleModel
from capsnet.registry import create_model
from capsnet.train.prepare import plan_run
from capsnet.train.step import Learner

RECIPE = Recipe(name="cost", epochs=1, batch_size=1, learning_rate=1e-5)


def random_batch(model: CapsuleModel, size: int) -> Batch:
    """Return images of noise; time and memory do not depend on their content."""
    images = torch.rand(size, *model.image_shape)
    classes = torch.arange(size) % model.architecture.num_classes
    targets = torch.nn.functional.one_hot(classes, model.architecture.num_classes).float()
    return Batch(images, targets, classes[:, None], images[:, None])


def median_seconds(call: Callable[[], object], seconds: float, *, warm_up: int = 2, least: int = 3) -> float:
    """Return the median duration of `call`, repeated for `seconds`."""
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
    """Return parameters, operations, ms for one image, training images/s, and the memory that training adds to the model's."""
    described = describe_model(name, **shape)
    model = create_model(name, **shape).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    learner = Learner(model, RECIPE, plan_run(RECIPE, max(1, batch_size)))
    one, many = random_batch(model, 1), random_batch(model, batch_size)
    model.eval()
    with torch.inference_mode():
        alone = median_seconds(lambda: model(one.images), seconds)
    model.train()
    before = reset_peak_memory()
    training = median_seconds(lambda: learner.step(many, 0), seconds, warm_up=1)
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
    """Run `measure_here` in its own process; `shape` may hold an `image_shape` and `num_classes` that replace the model's."""
    arguments = [name, str(batch_size), str(seconds), str(threads), json.dumps(shape)]
    done = subprocess.run(
        [sys.executable, "-m", "capsnet.analysis.speed", *arguments],
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
