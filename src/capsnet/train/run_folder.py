"""A run's folder: config.json, metrics.csv, result.json, last/ and best/ weights, state/. Never overwritten."""

import csv
import io
from pathlib import Path
from typing import Any

from capsnet.config import Config
from capsnet.errors import CapsNetError
from capsnet.files import atomic_write, read_json, write_json
from capsnet.train.state import FILE as STATE


class RunFolder:
    """The files of one run. `finished` is a complete run's result, `started` whether there is a state to go on from."""

    def __init__(self, path: Path, config: Config, *, resume: bool) -> None:
        self.path = path
        if resume:
            if not path.is_dir():
                raise CapsNetError(f"There is no run at {path} to resume; leave --resume out to start one.")
            if (path / "config.json").exists():
                self._check_same(Config.from_dict(read_json(path / "config.json")), config)
        elif path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise CapsNetError(
                f"{path} exists already; continue that run with --resume or choose another folder with --out."
            )

    def _check_same(self, stored: Config, config: Config) -> None:
        different = stored.differences(config)
        if different:
            names = ", ".join(different)
            raise CapsNetError(
                f"The run at {self.path} was made with other settings ({names}); resume it with its own, "
                f"--config {self.path / 'config.json'} --resume, or choose another folder with --out."
            )

    @property
    def started(self) -> bool:
        return (self.path / STATE).exists()

    @property
    def finished(self) -> dict[str, Any] | None:
        path = self.path / "result.json"
        return read_json(path) if path.exists() else None

    def write_config(self, config: Config) -> None:
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
