"""Many seeds of one recipe: a process and a run folder for each, some at a time, none lost to another's failure.

A trial is an ordinary `capsnet train` into `FOLDER/sSEED`, always with `--resume`, so starting again goes on where each
was. While it trains it holds a lock that the operating system frees with it: a second `trials` on the same folder never
trains a seed twice at once. On Linux a trial is interrupted, and so saves its state, when its parent is killed.
"""

import contextlib
import csv
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from capsnet.config import Config
from capsnet.errors import CapsNetError
from capsnet.evaluate.statistics import summarise
from capsnet.files import read_json, write_json

try:
    import fcntl
except ImportError:  # Windows: no lock, one `trials` at a time
    fcntl = None  # type: ignore[assignment]

State = Literal["waiting", "elsewhere", "training", "done", "failed"]
CAPSNET = (sys.executable, "-m", "capsnet")
POLL = 0.2
SET_PARENT_DEATH_SIGNAL = 1  # prctl's number for it
LIBC = (
    ctypes.CDLL(None) if sys.platform == "linux" else None
)  # loaded here: a forked child must not take locks
SUMMARY, CONFIG, LOG = "summary.json", "trials.json", "log.txt"


@dataclass
class Trial:
    """One seed: where it is kept and how it stands. `kept`: it was finished before."""

    seed: int
    folder: Path
    state: State = "waiting"
    kept: bool = False
    result: dict[str, Any] | None = None
    row: dict[str, str] = field(default_factory=dict)
    """of the last finished epoch"""
    note: str = ""
    """the last line of its log"""
    process: subprocess.Popen[bytes] | None = None
    lock: int | None = None

    def look(self) -> None:
        """Takes in what its folder and its process say."""
        if (self.folder / "result.json").is_file() and self.process is None:
            self.state, self.result = "done", read_json(self.folder / "result.json")
            return
        if self.process is None:
            return
        with contextlib.suppress(OSError):
            self.note = last_line(self.folder / LOG) or self.note
            with (self.folder / "metrics.csv").open(newline="") as file:
                self.row = list(csv.DictReader(file))[-1]
        code = self.process.poll()
        if code is None:
            return
        self.process = None
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None
        self.look()
        if self.state != "done":
            self.state = "failed"
            self.note = self.note or f"ended with code {code}"


def last_line(path: Path) -> str:
    """The end of a log, its last kilobytes read only."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_trials(
    config: Config,
    folder: Path,
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    save_every: float = 20.0,
    data_dir: Path | None = None,
    watch: Callable[[Sequence[Trial]], None] = lambda trials: None,
    command: Sequence[str] = CAPSNET,
) -> list[Trial]:
    """Trains every seed that is not finished, `jobs` at a time; `watch` hears how they stand a few times a second.

    Args:
        command: what is run with `train ...` after it.
    """
    if jobs < 1:
        raise CapsNetError(f"--jobs is at least 1; got {jobs}.")
    if not seeds:
        raise CapsNetError("--seeds is at least 1.")
    trials = [Trial(seed, folder / f"s{seed}") for seed in seeds]
    for trial in trials:
        check_same(trial.folder, replace(config, seed=trial.seed))
        trial.look()
        trial.kept = trial.state == "done"
    threads = config.threads or max(1, cores() // jobs)
    write_json(folder / CONFIG, replace(config, threads=threads).to_dict())
    options = ["--save-every", str(save_every), "--threads", str(threads)]
    if data_dir:
        options += ["--data-dir", str(data_dir)]
    with stopping(trials):
        while any(trial.state in ("waiting", "elsewhere", "training") for trial in trials):
            for trial in trials:
                if trial.state == "training":
                    trial.look()
                elif trial.state in ("waiting", "elsewhere") and running(trials) < jobs:
                    start(trial, [*command, "train", "--config", str(folder / CONFIG), *options])
            watch(trials)
            time.sleep(POLL)
    watch(trials)
    write_json(folder / SUMMARY, summary(config, trials))
    return trials


def running(trials: Sequence[Trial]) -> int:
    return sum(trial.state == "training" for trial in trials)


def check_same(folder: Path, config: Config) -> None:
    """Refuses a folder whose run has other settings, before anything is trained."""
    if not (folder / "config.json").is_file():
        return
    different = Config.from_dict(read_json(folder / "config.json")).differences(config)
    if different:
        raise CapsNetError(
            f"The run at {folder} was made with other settings ({', '.join(different)}); "
            "choose another folder with --out."
        )


def start(trial: Trial, command: list[str]) -> None:
    """Starts a trial, unless another process is at it or has finished it meanwhile."""
    trial.folder.mkdir(parents=True, exist_ok=True)
    lock = None
    if fcntl:
        lock = os.open(trial.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            trial.state, trial.note = "elsewhere", "another process is training it"
            return
    trial.look()
    if trial.state == "done":
        if lock is not None:
            os.close(lock)
        return
    words = [*command, "--seed", str(trial.seed), "--out", str(trial.folder), "--resume"]
    with (trial.folder / LOG).open("ab") as log:
        trial.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # The child holds the lock as long as it lives, also when this process dies.
            pass_fds=[lock] if lock is not None else [],
            # Ctrl-C on the terminal reaches this process alone, which then ends its trials in order.
            start_new_session=True,
            preexec_fn=interrupt_with_parent if sys.platform == "linux" else None,
        )
    trial.lock, trial.state, trial.note = lock, "training", ""


def interrupt_with_parent() -> None:
    """In the child: be interrupted when the parent dies, however it dies."""
    assert LIBC
    LIBC.prctl(SET_PARENT_DEATH_SIGNAL, int(signal.SIGINT))


@contextlib.contextmanager
def stopping(trials: Sequence[Trial]) -> Iterator[None]:
    """Leaves no trial running: interrupts all, waits for their states to be saved; a second Ctrl-C kills them."""
    try:
        yield
    except BaseException as error:
        alive = [trial.process for trial in trials if trial.process]
        for process in alive:
            process.send_signal(signal.SIGINT)
        try:
            for process in alive:
                process.wait()
        except KeyboardInterrupt:
            for process in alive:
                process.kill()
                process.wait()
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt("Stopped; the same command goes on where each seed was.") from None
        raise


def summary(config: Config, trials: Sequence[Trial]) -> dict[str, Any]:
    """What `summary.json` holds: each seed, and for each error its mean, spread and interval."""
    done = [(trial, trial.result) for trial in trials if trial.result is not None]
    keys = [k for k in (done[0][1] if done else {}) if k.endswith("error_percent")]
    numbers = {key: [result[key] for _, result in done if result[key] is not None] for key in keys}
    return {
        "dataset": config.dataset,
        "model": config.model,
        "recipe": config.recipe.name,
        "finished": len(done),
        "failed": [{"seed": t.seed, "why": t.note} for t in trials if t.state == "failed"],
        "errors": {key: summarise(values) for key, values in numbers.items() if values},
        "seconds": sum(result["seconds"] for _, result in done),
        "seeds": [
            {"seed": t.seed, **{key: result[key] for key in keys}, "seconds": result["seconds"]}
            for t, result in done
        ],
    }
