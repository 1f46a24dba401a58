"""A run's folder: config.json, metrics.csv, result.json, last/ and best/ weights, state/. Never overwritten.

`state/launch.json` says which call of torchrun began the run: workers that it starts again go on with it unasked.
"""

import csv
import io
from pathlib import Path
from typing import Any

from capsnet.config import Config
from capsnet.errors import CapsNetError
from capsnet.files import atomic_write, read_json, write_json
from capsnet.train.distributed import launch
from capsnet.train.state import FILE as STATE

LAUNCH = STATE.with_name("launch.json")


class RunFolder:
    """The files of one run. `started`: whether there is a state to go on from."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, config: Config, *, resume: bool) -> dict[str, Any] | None:
        """Refuses a folder that is not this run's, or is, without `resume`; gives the result of a complete run."""
        path = self.path
        if resume or self._begun_by_this_launch():
            if not path.is_dir():
                raise CapsNetError(f"There is no run at {path} to resume; leave --resume out to start one.")
            if (path / "config.json").exists():
                self._check_same(Config.from_dict(read_json(path / "config.json")), config)
        elif path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise CapsNetError(
                f"{path} exists already; continue that run with --resume or choose another folder with --out."
            )
        result = path / "result.json"
        return read_json(result) if result.exists() else None

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
        return (self.path / STATE).exists()

    def write_config(self, config: Config) -> None:
        if launch() is not None:
            write_json(self.path / LAUNCH, {"launch": launch()})
        write_json(self.path / "config.json", config.to_dict())

    def write_metrics(self, rows: list[dict[str, Any]]) -> None:
        """A row an epoch; the whole file each time, so that it never disagrees with the state."""
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        atomic_write(self.path / "metrics.csv", text.getvalue().encode())

    def write_result(self, result: dict[str, Any]) -> None:
        write_json(self.path / "result.json", result)
