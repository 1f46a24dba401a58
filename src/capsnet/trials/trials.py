"""Many seeds of one recipe: one job and one run folder per seed. Some run at a time; one's failure does not stop the others.

A trial is an ordinary `capsnet train` into `FOLDER/sSEED`, always with `--resume`, so starting again continues where each
was. The engine decides where it is trained: processes of this machine (trial_process.py) or tasks of a Ray cluster
(ray_trials.py).
"""

import contextlib
import csv
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from capsnet.config import Config
from capsnet.errors import CapsNetError
from capsnet.evaluate.statistics import summarise
from capsnet.files import read_json, write_json
from capsnet.locks import is_locked
from capsnet.trials.trial_process import CONFIG, LOG, POLL, LocalEngine, last_line

State = Literal["waiting", "elsewhere", "training", "done", "failed"]
SUMMARY = "summary.json"
ELSEWHERE = "another process is training it"


class Job(Protocol):
    """A trial that an engine trains."""

    note: str
    """why it failed, where its log does not say"""

    def begun(self) -> bool: ...
    def poll(self) -> int | None:
        """The exit code, once it has ended."""

    def interrupt(self) -> None:
        """Ask it to save its state and end."""

    def wait(self) -> object: ...
    def kill(self) -> None: ...


class Engine(Protocol):
    """What trains trials."""

    threads: int
    """of each trial, unless the user chooses"""

    def room(self, jobs: int) -> bool:
        """Return whether it takes another trial besides so many."""

    def start(self, folder: Path, words: list[str]) -> Job | None:
        """Start `capsnet WORDS`, which trains into `folder`; return None when another process trains there."""


@dataclass
class Trial:
    """One training: where it is kept and how far it is. `kept`: it was finished before."""

    seed: int
    folder: Path
    words: tuple[str, ...] = ()
    """of `capsnet train`, but for the seed and the folder"""
    name: str = ""
    """of one of several settings"""
    state: State = "waiting"
    kept: bool = False
    result: dict[str, Any] | None = None
    row: dict[str, str] = field(default_factory=dict)
    """of the last finished epoch"""
    note: str = ""
    """the last line of its log"""
    job: Job | None = None

    def look(self) -> None:
        """Update from its folder and its job."""
        if (self.folder / "result.json").is_file() and self.job is None:
            self.state, self.result = "done", read_json(self.folder / "result.json")
            return
        if self.job is None:
            return
        if self.state != "training" and self.job.begun():
            self.state = "training"
        if self.state == "training":
            with contextlib.suppress(OSError):
                self.note = last_line(self.folder / LOG) or self.note
                with (self.folder / "metrics.csv").open(newline="") as file:
                    self.row = list(csv.DictReader(file))[-1]
        code = self.job.poll()
        if code is None:
            return
        ended, self.job = self.job, None
        self.look()
        if self.state == "done":
            return
        if code != 0 and is_locked(self.folder):  # the other process was quicker
            self.state, self.note = "elsewhere", ELSEWHERE
        else:
            self.state = "failed"
            self.note = ended.note or self.note or f"ended with code {code}"


def run_trials(
    config: Config,
    folder: Path,
    seeds: Sequence[int],
    *,
    engine: Engine | None = None,
    save_every: float = 20.0,
    data_dir: Path | None = None,
    watch: Callable[[Sequence[Trial]], None] = lambda trials: None,
) -> list[Trial]:
    """Train every seed that is not finished; `watch` is called with all trials a few times per second.

    Args:
        engine: one process at a time when left out.
    """
    engine = engine or LocalEngine()
    if not seeds:
        raise CapsNetError("--seeds is at least 1.")
    words = ("--config", str(folder / CONFIG))
    trials = [Trial(seed, folder / f"s{seed}", words) for seed in seeds]
    for trial in trials:
        check_same(trial.folder, replace(config, seed=trial.seed))
    threads = config.threads or engine.threads
    write_json(folder / CONFIG, replace(config, threads=threads).to_dict())
    train_all(trials, engine, threads=threads, save_every=save_every, data_dir=data_dir, watch=watch)
    write_json(folder / SUMMARY, summary(config, trials))
    return trials


def train_all(
    trials: Sequence[Trial],
    engine: Engine,
    *,
    threads: int,
    save_every: float = 20.0,
    data_dir: Path | None = None,
    watch: Callable[[Sequence[Trial]], None] = lambda trials: None,
) -> None:
    """Train every trial that is not finished."""
    for trial in trials:
        trial.look()
        trial.kept = trial.state == "done"
    options = ["--save-every", str(save_every), "--threads", str(threads)]
    if mode := os.environ.get("CAPSNET_KERNELS"):  # other machines have another environment
        options += ["--kernels", mode]
    if data_dir:
        options += ["--data-dir", str(data_dir)]
    with stopping(trials):
        while any(trial.state in ("waiting", "elsewhere", "training") for trial in trials):
            for trial in trials:
                if trial.job:
                    trial.look()
                elif trial.state in ("waiting", "elsewhere") and engine.room(
                    sum(bool(t.job) for t in trials)
                ):
                    start(trial, engine, options)
            watch(trials)
            time.sleep(POLL)
    watch(trials)


def check_same(folder: Path, config: Config) -> None:
    """Refuse a folder whose run has other settings, before anything is trained."""
    if not (folder / "config.json").is_file():
        return
    different = Config.from_dict(read_json(folder / "config.json")).differences(config)
    if different:
        raise CapsNetError(
            f"The run at {folder} was made with other settings ({', '.join(different)}); "
            "choose another folder with --out."
        )


def start(trial: Trial, engine: Engine, options: list[str]) -> None:
    """Hand a trial to the engine, unless another process trains it or has finished it in the meantime."""
    trial.look()
    if trial.state == "done":
        return
    own = ["--seed", str(trial.seed), "--out", str(trial.folder), "--resume"]
    trial.job = engine.start(trial.folder, ["train", *trial.words, *options, *own])
    if trial.job is None:
        trial.state, trial.note = "elsewhere", ELSEWHERE
    else:
        trial.state, trial.note = "waiting", ""
        trial.look()


@contextlib.contextmanager
def stopping(trials: Sequence[Trial]) -> Iterator[None]:
    """Leave no trial running on exit: interrupt all and wait for their states to be saved; a second Ctrl-C kills them."""
    try:
        yield
    except BaseException as error:
        jobs = [trial.job for trial in trials if trial.job]
        for job in jobs:
            job.interrupt()
        try:
            for job in jobs:
                job.wait()
        except KeyboardInterrupt:
            for job in jobs:
                job.kill()
                job.wait()
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(
                "Stopped; the same command continues every seed from its last state."
            ) from None
        raise


def summary(config: Config, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return what `summary.json` holds: each seed, and for each error its mean, spread and interval."""
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
