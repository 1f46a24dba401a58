"""Several processes that train one network, as `torchrun` starts them; without it, one process alone.

Every process builds the whole global batch, augmentation included, from the run's seed, and computes its own share of it:
every `size`-th image. So the order of the images and their augmentation do not depend on the number of processes, and a run
can be resumed with another number. Each process weights its mean losses by its share, so that the mean gradient over the
processes, which DistributedDataParallel takes, is the gradient of the global batch even when the batch does not divide evenly.

Only the leader, rank 0, reads and writes the run's folder; the others get what they need from it. Numbers are exchanged over
gloo, gradients on GPUs over nccl.

BatchNorm is synchronised on GPUs. PyTorch has no such layer for CPUs: there each process normalises by its own share, and the
running statistics are averaged.
"""

import contextlib
import importlib
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from capsnet.data.base import Batch
from capsnet.errors import CapsNetError
from capsnet.train.averaging import statistics
from capsnet.wording import counted

T = TypeVar("T")


class Share(NamedTuple):
    """What one process computes of a global batch: images rank, rank + size, rank + 2 size, ...

    The first n images of the batch are therefore the first of the share too. A share is never empty: with fewer images than
    processes, some compute an image that has weight 0.
    """

    rank: int = 0
    size: int = 1

    def of(self, batch: Batch) -> Batch:
        first = self.rank if self.rank < len(batch.images) else 0
        return Batch(*(tensor[first :: self.size] for tensor in batch))

    def count(self, images: int) -> int:
        """Return how many of the first `images` are in the share."""
        return max(1, len(range(self.rank, images, self.size)))

    def weight(self, images: int) -> float:
        """Return the weight of a mean over the share, so that the mean over all processes is that over the first `images`."""
        return self.size * len(range(self.rank, images, self.size)) / images


WHOLE = Share()


class Team:
    """The processes that train a run, seen by one of them. This class is for one process alone, which has nothing to do."""

    share = WHOLE
    leads = True
    """reads, writes and speaks for all"""
    place: tuple[int, ...] = ()
    """distinguishes what each process draws for its own share, such as dropout"""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @property
    def size(self) -> int:
        return self.share.size

    def describe(self, threads: int) -> str:
        """Say where the run is trained."""
        return f"{self.device} with {counted(threads, 'thread')}"

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None: ...

    def synchronise_norms(self, model: nn.Module) -> None:
        """Let BatchNorm see the global batch, where the device can."""

    def parallel(self, objective: nn.Module, *, unused: bool) -> nn.Module:
        """Wrap the module that computes the loss, so that its backward pass leaves the mean gradient in every process.

        Args:
            unused: whether it has parameters that the loss does not depend on.
        """
        return objective

    def average_statistics(self, model: nn.Module) -> None:
        """Average BatchNorm's running statistics after a step, where it is not synchronised."""

    def add_up(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums over all processes."""
        return list(numbers)

    def mean(self, number: float) -> float:
        return self.add_up([number])[0] / self.size

    def any(self, flag: bool) -> bool:
        return self.add_up([flag])[0] > 0

    def from_leader(self, value: T) -> T:
        """Return the leader's value."""
        return value

    def copy_from_leader(self, model: nn.Module) -> None:
        """Give a model the leader's weights."""

    def gather(self, batches: list[T]) -> list[T]:
        """Return, in the leader, all batches in their order, which were dealt out in turn."""
        return batches

    @contextlib.contextmanager
    def agreeing(self) -> Iterator[None]:
        """End all processes when any of them raises a CapsNetError within this block, and print it once."""
        yield

    def once(self, error: Exception, code: int = 2) -> BaseException:
        """Return what every process should raise for an error that all of them see; only the leader's is printed."""
        return error


class Torchrun(Team):
    """One of several processes."""

    def __init__(self, device: torch.device) -> None:
        rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
        if device.type == "cuda":
            device = torch.device("cuda", local if device.index is None else device.index)
            if local >= torch.cuda.device_count():
                raise CapsNetError(
                    f"There are {torch.cuda.device_count()} GPUs on {socket.gethostname()}, too few for this many processes: "
                    "lower torchrun's --nproc-per-node."
                )
            torch.cuda.set_device(device)
        elif device.type != "cpu":
            raise CapsNetError(f"Several processes train on CPUs or CUDA devices, not on '{device.type}'.")
        super().__init__(device)
        self.share = Share(rank, int(os.environ["WORLD_SIZE"]))
        self.leads, self.place = rank == 0, (rank,)

    def describe(self, threads: int) -> str:
        return f"{self.size} processes on {self.device.type} with {counted(threads, 'thread')} each"

    def __enter__(self) -> "Torchrun":
        from torch import distributed

        # Its functions have the group that there is when it is imported as their default. Imported later, as
        # DistributedDataParallel does, it would keep ours for good, and with it threads that outlive the interpreter: one
        # that lets go of a tensor then aborts a process that has ended well.
        importlib.import_module("torch.distributed.nn.functional")
        backend = "gloo" if self.device.type == "cpu" else "cpu:gloo,cuda:nccl"
        store, rank, size = next(distributed.rendezvous("env://"))
        # Torchrun keeps its store when it starts workers again: they must not find the addresses of those that died.
        start = f"{os.environ['TORCHELASTIC_RESTART_COUNT']}/{size}"
        distributed.init_process_group(
            backend, store=distributed.PrefixStore(start, store), rank=rank, world_size=size
        )
        self.group = distributed
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            self.group.destroy_process_group()
        elif isinstance(error, RuntimeError) and ("gloo" in str(error) or "NCCL" in str(error)):
            raise CapsNetError(
                f"Process {self.share.rank} stops: it has lost the others, which say why if they could."
            ) from None

    def synchronise_norms(self, model: nn.Module) -> None:
        if self.device.type == "cuda":
            nn.SyncBatchNorm.convert_sync_batchnorm(model)

    def parallel(self, objective: nn.Module, *, unused: bool) -> nn.Module:
        return nn.parallel.DistributedDataParallel(
            objective, forward_sync_buffers=False, find_unused_parameters=unused
        )

    def average_statistics(self, model: nn.Module) -> None:
        found = statistics(model, learning=True)
        if self.device.type == "cuda" or not found:
            return
        flat = torch.cat([buffer.flatten() for buffer in found])
        self.group.all_reduce(flat)
        flat /= self.size
        for buffer, mean in zip(found, flat.split([b.numel() for b in found]), strict=True):
            buffer.copy_(mean.view_as(buffer))

    def add_up(self, numbers: Sequence[float]) -> list[float]:
        sums = torch.tensor(numbers, dtype=torch.float64)
        self.group.all_reduce(sums)
        return sums.tolist()

    def from_leader(self, value: T) -> T:
        box = [value]
        self.group.broadcast_object_list(box, src=0)
        return box[0]

    def copy_from_leader(self, model: nn.Module) -> None:
        tensor: Tensor
        for tensor in model.state_dict().values():
            # Over gloo a tensor travels as it lies in memory, so all must lie alike.
            sent = tensor.cpu().contiguous()
            self.group.broadcast(sent, src=0)
            tensor.copy_(sent)

    def gather(self, batches: list[T]) -> list[T]:
        parts: list[Any] | None = [None] * self.size if self.leads else None
        self.group.gather_object(batches, parts, dst=0)
        if parts is None:
            return []
        rounds = max(map(len, parts))
        return [part[turn] for turn in range(rounds) for part in parts if turn < len(part)]

    @contextlib.contextmanager
    def agreeing(self) -> Iterator[None]:
        mine: CapsNetError | None = None
        try:
            yield
        except CapsNetError as error:
            mine = error
        failed: list[bool] = [False] * self.size
        self.group.all_gather_object(failed, mine is not None)
        if mine and failed.index(True) == self.share.rank:
            raise mine
        if any(failed):
            raise SystemExit(2)

    def once(self, error: Exception, code: int = 2) -> BaseException:
        return error if self.leads else SystemExit(code)


def join_team(device: torch.device) -> Team:
    """Return the processes that torchrun started with this one."""
    several = launch() is not None and int(os.environ["WORLD_SIZE"]) > 1
    return Torchrun(device) if several else Team(device)


def leads() -> bool:
    """Return whether this process speaks for all; works before they are joined."""
    return launch() is None or os.environ["RANK"] == "0"


def launch() -> str | None:
    """Return what identifies one call of torchrun, also to the workers that it restarts; None without torchrun.

    Its run id, which is "none" unless it was called with --standalone or --rdzv-id: then this machine and torchrun's process.
    """
    name = os.environ.get("TORCHELASTIC_RUN_ID")
    return f"{socket.gethostname()}:{os.getppid()}" if name in ("none", "") else name
