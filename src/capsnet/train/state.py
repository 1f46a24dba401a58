"""The state of a run: everything that resuming needs, in one safetensors file that is replaced atomically.

The tensors are the model's, the optimiser's and the average's, told apart by a prefix. Everything else (step, sums of the
running epoch, rows of the finished epochs) is JSON in the file's own header, so the two cannot disagree after a crash.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from capsnet.errors import CapsNetError
from capsnet.files import atomic_write
from capsnet.train.step import Learner

FILE = Path("state") / "state.safetensors"


@dataclass
class Progress:
    """Where a run is."""

    step: int = 0
    loss_sum: float = 0.0
    images: int = 0
    """images seen in the running epoch, and the sum of their losses"""
    seconds: float = 0.0
    """spent in training steps, before and after each interruption"""
    best_key: list[float] | None = None
    """validation error and loss of the weights in best/"""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """one for each finished epoch"""
    stopped: bool = False
    """whether training ended before its last planned step"""

    def rate(self, images_per_epoch: int) -> float:
        """Return images per second over the whole run."""
        return (len(self.rows) * images_per_epoch + self.images) / self.seconds


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    entries = optimizer.state_dict()["state"]
    return {f"{index}.{key}": value for index, entry in entries.items() for key, value in entry.items()}


def save_state(folder: Path, learner: Learner, progress: Progress) -> None:
    """Write the state; refuse one with a value that is not finite, so that the last good one stays."""
    tensors = {f"model.{k}": v for k, v in learner.model.state_dict().items()}
    if not all(bool(t.isfinite().all()) for t in tensors.values()):
        raise CapsNetError(diverged(progress.step, folder))
    tensors |= {f"optimizer.{k}": v for k, v in _optimizer_tensors(learner.optimizer).items()}
    if learner.average is not None:
        tensors |= {f"average.{k}": v for k, v in learner.average.model.state_dict().items()}
    content = save(
        {k: v.detach().cpu().contiguous() for k, v in tensors.items()},
        metadata={"progress": json.dumps(asdict(progress))},
    )
    atomic_write(folder / FILE, content)


def load_state(folder: Path, learner: Learner) -> Progress:
    """Put a saved state into the model, the optimiser and the average; return where the run was."""
    path, optimizer = folder / FILE, learner.optimizer
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            progress = Progress(**json.loads((file.metadata() or {})["progress"]))
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "average": {}}
        for key, tensor in tensors.items():
            part, _, name = key.partition(".")
            parts[part][name] = tensor
        learner.model.load_state_dict(parts["model"])
        if learner.average is not None:
            learner.average.model.load_state_dict(parts["average"])
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        entries: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts["optimizer"].items():
            index, _, key = name.partition(".")
            like = parameters[int(index)]
            # Moments go back into their parameter's memory layout: the order of the arithmetic depends on it.
            laid_out = torch.empty_like(like).copy_(tensor) if tensor.shape == like.shape else tensor
            entries.setdefault(int(index), {})[key] = laid_out
        optimizer.load_state_dict({**optimizer.state_dict(), "state": entries})
    except (SafetensorError, KeyError, IndexError, ValueError, TypeError, RuntimeError) as error:
        detail = str(error).splitlines()[0]
        raise CapsNetError(
            f"The state {path} is damaged ({detail}); delete it to start this run over, or train into a new folder."
        ) from None
    return progress


def share_state(learner: Learner, progress: Progress) -> Progress:
    """Copy the leader's state to the other processes, since only the leader has to see the run's folder."""
    team, optimizer = learner.team, learner.optimizer
    entries = optimizer.state_dict()["state"]
    moments = {n: {key: value.cpu() for key, value in entry.items()} for n, entry in entries.items()}
    progress, moments = team.from_leader((progress, moments))
    team.copy_from_leader(learner.model)
    if learner.average:
        team.copy_from_leader(learner.average.model)
    if not team.leads:
        optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    return progress


def exhausted(rows: Sequence[dict[str, Any]], patience: int | None) -> bool:
    """Return whether the last `patience` epochs brought no better validation error; the loss decides ties."""
    if patience is None or not rows:
        return False
    scores = [(row["validation_error_percent"], row["validation_loss"]) for row in rows]
    return len(rows) - 1 - scores.index(min(scores)) >= patience


def diverged(step: int, folder: Path) -> str:
    """Say that training left the finite numbers."""
    return (
        f"The loss is no longer a finite number at step {step}; training stopped and the last good state is kept in {folder}. "
        "Lower the learning rate."
    )
