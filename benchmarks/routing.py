"""Time and memory of every routing, accelerated as in training, forward and backward, for the same votes, against the number
of input capsules.

Self-attention routing stands twice: as the library computes it, and as the paper writes it, with the I x I matrices of eq. 5
built, while those fit in 4 GiB. Each routing has a process of its own, so that its peak of memory is its own.

    python benchmarks/routing.py [--batch 8] [--threads 2] [--json]
"""

import argparse
import json
import subprocess
import sys

import torch
from torch import Tensor, nn

from capsnet.analysis.speed import median_seconds
from capsnet.functional.routing import ROUTINGS, RoutingResult
from capsnet.functional.squashing import length, squash
from capsnet.kernels import accelerate
from capsnet.layers import Routing
from capsnet.machine import load_average, peak_memory, processor, reset_peak_memory

CLASSES, SIZE = 10, 16
CAPSULES = (16, 64, 256, 1024, 4096, 16384)
LITERAL = "self_attention, literal"
LARGEST_FOR_ALL = 4096
LARGEST = {
    "self_attention": 16384,
    LITERAL: 16384,
    "attention": 1024,
}  # attention learns J x D x I x I weights
LIMIT = 4 * 2**30


def literal_self_attention(votes: Tensor, log_prior: Tensor) -> RoutingResult:
    """Eqs. 4 to 6 as they are written."""
    attention = torch.einsum("bjid,bjkd->bjik", votes, votes) / votes.shape[-1] ** 0.5
    coupling = attention.sum(dim=3).softmax(dim=1)
    poses = squash(torch.einsum("bji,bjid->bjd", coupling + log_prior, votes))
    return RoutingResult(poses, length(poses), coupling)


def measure(name: str, i: int, batch: int) -> dict[str, float] | None:
    """Milliseconds and MiB of one forward and backward pass; None where the literal form would not fit."""
    if (
        name == LITERAL and 3 * 4 * batch * CLASSES * i**2 > LIMIT
    ):  # the matrices, their product's copy and a gradient
        return None
    torch.manual_seed(0)
    votes = torch.randn(batch, CLASSES, i, SIZE).mul_(i**-0.5).requires_grad_()
    activations = torch.rand(batch, i)
    if name == LITERAL:
        log_prior = nn.Parameter(torch.zeros(CLASSES, i))
    else:
        routing = accelerate(Routing(name, i, CLASSES, SIZE))

    def step() -> None:
        votes.grad = None
        result = literal_self_attention(votes, log_prior) if name == LITERAL else routing(votes, activations)
        result.poses.sum().backward()

    step()
    votes.grad = None
    before = reset_peak_memory()
    step()
    memory = peak_memory() - before
    seconds = median_seconds(step, 0.5, warm_up=0)
    return {"milliseconds": round(1000 * seconds, 2), "mib": round(memory / 2**20, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.cell:
        sizes = [i for i in CAPSULES if i <= LARGEST.get(options.cell, LARGEST_FOR_ALL)]
        print(json.dumps({str(i): measure(options.cell, i, options.batch) for i in sizes}))
        return
    result: dict[str, object] = {
        "machine": processor(),
        "threads": options.threads,
        "load_before": load_average(),
        "torch": torch.__version__,
        "batch": options.batch,
        "votes": f"{options.batch} x {CLASSES} x I x {SIZE}",
    }
    print("ms / MiB above the votes, forward and backward; batch", options.batch, file=sys.stderr)
    print(f"{'I =':26s}" + "".join(f"{i:>18,}" for i in CAPSULES), file=sys.stderr)
    routings: dict[str, dict[str, dict[str, float] | None]] = {}
    for name in ("self_attention", LITERAL, *sorted(set(ROUTINGS) - {"self_attention"})):
        command = [sys.executable, __file__, "--cell", name]
        command += ["--batch", str(options.batch), "--threads", str(options.threads)]
        routings[name] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        cells = [routings[name].get(str(i)) for i in CAPSULES]
        texts = [f"{c['milliseconds']:.1f} / {c['mib']:.0f}" if c else "-" for c in cells]
        print(f"{name:26s}" + "".join(f"{text:>18s}" for text in texts), file=sys.stderr)
    result["routings"] = routings
    result["load_after"] = load_average()
    if options.json:
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
