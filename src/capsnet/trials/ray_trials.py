"""Trials on a Ray cluster: one task per seed, which trains in its own process on the node that Ray chooses.

The run folders are on storage that all nodes see. A task is little more than the parent of its `capsnet train --resume`: when
its worker or its node dies, Ray runs it again elsewhere, and the run continues from its last state. Cancelling it, which
Ctrl-C does, interrupts the training, which then saves its state. The package must be installed on the nodes.

The progress of trials is read from their folders, as on one machine.
"""

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from capsnet.errors import CapsNetError
from capsnet.locks import is_locked
from capsnet.trials.trial_process import CAPSNET, CONFIG, LOG, POLL, TrialProcess, start_process

RETRIES = 20  # of one seed, each from its last state
LATEST_CLUSTER = Path("/tmp/ray/ray_current_cluster")  # where Ray notes the address for "auto"
REACH = 5.0  # seconds in which the cluster must answer: Ray itself tries for minutes


class Killed(Exception):
    """The training process was killed from outside, perhaps for lack of memory: Ray tries again."""


class RayEngine:
    """Hands all trials to the cluster at once; Ray starts as many as fit."""

    def __init__(
        self,
        address: str | None = None,
        *,
        cpus: int = 1,
        gpus: float = 0.0,
        command: Sequence[str] | None = None,
    ) -> None:
        """
        Args:
            address: of the cluster; without one, Ray is started on this machine until the program ends.
            cpus, gpus: that each trial takes on its node.
            command: what is run with `train ...` after it; the node's own `capsnet` when left out.
        """
        if cpus < 1:
            raise CapsNetError(f"--cpus-per-trial is at least 1; got {cpus}.")
        if gpus < 0:
            raise CapsNetError(f"--gpus-per-trial is at least 0; got {gpus:g}.")
        connect(address)
        check_room({"CPU": cpus, "GPU": gpus})
        import ray

        self.threads, self.command = cpus, command
        self.task: Any = ray.remote(
            num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES, retry_exceptions=[Killed]
        )(supervise)

    def room(self, jobs: int) -> bool:
        return True

    def start(self, folder: Path, words: list[str]) -> "RayJob":
        command = None if self.command is None else list(self.command)
        return RayJob(self.task.remote(str(folder), command, words, os.getcwd()), folder / LOG)


class RayJob:
    """A task of the cluster."""

    def __init__(self, reference: Any, log: Path) -> None:
        self.reference, self.log, self.before = reference, log, size(log)
        self.note = ""

    def begun(self) -> bool:
        """Return whether a node has written into the log."""
        return size(self.log) != self.before

    def poll(self) -> int | None:
        import ray

        ready, _ = ray.wait([self.reference], timeout=0)
        if not ready:
            return None
        try:
            return ray.get(self.reference)
        except ray.exceptions.RayError as error:
            reason = str(getattr(error, "cause", None) or error).strip()
            self.note = reason.splitlines()[0] if reason else type(error).__name__
            return 1

    def interrupt(self) -> None:
        import ray

        ray.cancel(self.reference)

    def wait(self) -> None:
        while self.poll() is None:
            time.sleep(POLL)

    def kill(self) -> None:
        import ray

        ray.cancel(self.reference, force=True)


def size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def supervise(folder: str, command: list[str] | None, words: list[str], cwd: str) -> int:
    """Train to the end, on a node, and return the exit code."""
    run = Path(folder)
    if not (run.parent / CONFIG).is_file():
        raise CapsNetError(
            f"Node {socket.gethostname()} does not see '{run.parent}': --storage is a folder that all nodes see."
        )
    there = cwd if Path(cwd).is_dir() else None  # so that relative paths mean what they do for the user
    while True:
        # After a node's death its training may live on for a moment, until it has saved its state.
        while (job := start_process(run, [*(command or CAPSNET), *words], there)) is None:
            time.sleep(POLL)
        code = follow(job)
        if code == 0 or not is_locked(run):
            break
    if code < 0:
        raise Killed(f"The training was killed by signal {-code}.")
    return code


def follow(job: TrialProcess) -> int:
    """Wait for the exit code of a training; interrupt the training when this task is cancelled."""
    try:
        # Ray interrupts between two instructions of Python only, so the sleeps are short.
        while (code := job.poll()) is None:
            time.sleep(POLL)
    except KeyboardInterrupt:
        job.interrupt()
        job.wait()
        raise
    return code


def connect(address: str | None) -> None:
    """Join the cluster, or say quickly that there is none."""
    try:
        import ray
    except ImportError:
        raise CapsNetError(
            "--engine ray needs Ray, which is not installed: pip install 'capsnet[cluster]'."
        ) from None
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address.startswith("ray://"):
        raise CapsNetError(
            f"Start the trials on a machine of the cluster, with --address auto, not from outside by '{address}'."
        )
    if address == "auto" and LATEST_CLUSTER.is_file():
        address = LATEST_CLUSTER.read_text().strip()
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet["include_dashboard"] = False
    elif address != "auto":
        check_reachable(address)
    if ray.is_initialized():
        return
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CapsNetError(
            f"Could not join a Ray cluster by --address {address} ({reason}); `ray start --head` starts one, and "
            "without --address the trials run on a Ray of this machine alone."
        ) from None


def check_reachable(address: str) -> None:
    """Refuse an address without a cluster; Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH).close()
    except (OSError, ValueError, OverflowError) as error:
        raise CapsNetError(
            f"There is no Ray cluster at '{address}' ({error}); say where its head is with --address HOST:PORT, "
            "or `auto` on a machine of the cluster."
        ) from None


def check_room(wanted: dict[str, float]) -> None:
    """Refuse a trial that no node is large enough for; Ray would wait for such a node forever."""
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(all(node.get(kind, 0) >= n for kind, n in wanted.items()) for node in nodes):
        return
    asked = " and ".join(f"{n:g} {kind}s" for kind, n in wanted.items() if n)
    most = ", ".join(f"{max((node.get(kind, 0) for node in nodes), default=0):g} {kind}s" for kind in wanted)
    raise CapsNetError(
        f"No node of the Ray cluster has {asked} for a trial; the most that one has is {most}: "
        "lower --cpus-per-trial or --gpus-per-trial."
    )
