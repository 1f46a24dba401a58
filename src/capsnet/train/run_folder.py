"""A run's folder: config.json, metrics.csv, result.json, last/ and best/ weights, state/. It is never overwritten.

One process at a time trains into it. `state/launch.json` identifies the call of torchrun that began the run: workers that
torchrun starts again continue it without being asked to.
"""

import contextlib
import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from capsnet import locks
from capsnet.config import Config
from capsnet.errors import CapsNetError
from capsnet.files import atomic_write, read_json, write_json
from capsnet.train.distributed import launch
from capsnet.train.state import FILE as STATE

LAUNCH = STATE.with_name("launch.json")


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, config: Config, *, resume: bool) -> dict[str, Any] | None:
        """Return the run's result if it is complete. Refuses a folder that belongs to another run, one that exists without
        `resume`, and one that another process is training in."""
        path = self.path
        if path.is_dir() and locks.is_locked(path):
            raise self._busy()
        if resume or self._begun_by_this_launch():
            if not path.is_dir():
                raise CapsNetError(f"There is no run at {path} to resume; leave --resume out to start one.")
            if (path / "config.json").exists():
                self._check_same(Config.from_dict(read_json(path / "config.json")), self.settled(config))
        elif path.exists() and (not path.is_dir() or any(file.name != locks.NAME for file in path.iterdir())):
            raise CapsNetError(
                f"{path} exists already; continue that run with --resume or choose another folder with --out."
            )
        result = path / "result.json"
        return read_json(result) if result.exists() else None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training into the folder, which is created if needed."""
        with locks.folder_lock(self.path) as free:
            if not free:
                raise self._busy()
            yield

    def settled(self, config: Config) -> Config:
        """Return the configuration with what the run has measured: how many images fit into its time budget."""
        file, recipe = self.path / "config.json", config.recipe
        if recipe.minutes is None or recipe.images is not None or not file.exists():
            return config
        measured = Config.from_dict(read_json(file)).recipe.images
        return replace(config, recipe=replace(recipe, images=measured))

    def _busy(self) -> CapsNetError:
        return CapsNetError(
            f"Another process is training in {self.path}; wait for it to end, or choose another folder with --out."
        )

    def _begun_by_this_launch(self) -> bool:
        made = self.path / LAUNCH
        return launch() is not None and made.is_file() and read_json(made) == {"launch": launch()}

    def _check_same(self, stored: Config, config: Config) -> None:
        different = stored.differences(config)
        if different:
            names = ", ".join(different)
            raise CapsNetError(
                f"The run at {self.path} was made with other settings ({names}); resume it with its own, "
                f"--config {self.path / 'config.json'} --out {self.path} --resume, or choose another folder with --out."
            )

    @property
    def started(self) -> bool:
        """Whether there is a state to continue from."""
        return (self.path / STATE).exists()

    def write_config(self, config: Config) -> None:
        if launch() is not None:
            write_json(self.path / LAUNCH, {"launch": launch()})
        write_json(self.path / "config.json", config.to_dict())

    def write_metrics(self, rows: list[dict[str, Any]]) -> None:
        """Write one row per epoch; the whole file each time, so that it never disagrees with the state."""
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        atomic_write(self.path / "metrics.csv", text.getvalue().encode())

    def write_result(self, result: dict[str, Any]) -> None:
        write_json(self.path / "result.json", result)
