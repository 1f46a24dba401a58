"""The results that a report is made from: JSON files, one a run, in a folder a data set or a kind of result.

A folder of `capsnet trials` folders (`--storage`) will do too: its finished runs count, wherever they lie in it.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capsnet.errors import CapsNetError
from capsnet.evaluate.statistics import summarise

PACKAGED = Path(__file__).parent / "results"
CHECKOUT = Path(__file__).parents[3] / "results"

RESULT = "result.json"
NOT_RECORDS = ("config.json", "trials.json", "summary.json")  # of runs and trials

Record = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone, summed up."""

    recipe: str
    records: tuple[Record, ...]
    key: str = "test_error_percent"

    @property
    def values(self) -> list[float]:
        return [record[self.key] for record in self.records]

    @property
    def summary(self) -> dict[str, Any]:
        return summarise(self.values)

    @property
    def seeds(self) -> str:
        return f"{len(self.records)} seed" + ("s" if len(self.records) > 1 else "")

    def text(self, digits: int = 2) -> str:
        """Mean and, from two seeds on, deviation."""
        s = self.summary
        spread = f" ± {s['deviation']:.{digits + 1}f}" if s["deviation"] is not None else ""
        return f"{s['mean']:.{digits}f}{spread}"


class Results:
    """All records, by folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: dict[str, list[Record]] = {}
        for path in sorted(folder.glob("*/*.json")):
            if path.name not in (RESULT, *NOT_RECORDS):
                self._add(path, path.parent.name)
        for path in sorted({*folder.glob(f"*/{RESULT}"), *folder.glob(f"*/*/{RESULT}")}):
            self._add(path, None)

    def _add(self, path: Path, kind: str | None) -> None:
        """Takes in a record of its kind; a run's is its data set."""
        try:
            record = json.loads(path.read_bytes())
        except ValueError as error:
            raise CapsNetError(f"'{path}' is not JSON: {error}.") from None
        if isinstance(record, dict):
            place = str(path.relative_to(self.folder))
            self.records.setdefault(kind or record["dataset"], []).append({**record, "file": place})

    def of(self, folder: str) -> list[Record]:
        return self.records.get(folder, [])

    def runs(self, folder: str, model: str | None = None, *, decoder: bool | None = None) -> list[Record]:
        """Whole runs (all training images, no shared budget), of one model with or without its decoder."""

        def fits(record: Record) -> bool:
            config = record.get("config", {})
            options = config.get("model_options", {})
            return (
                "seed" in record
                and config.get("limit") is None
                and not config.get("dataset_options", {}).get("views")
                and record.get("recipe") != "budget"
                and model in (None, record.get("model"))
                and (decoder is None or (options.get("decoder", True) is not False) == decoder)
                and not set(options) - {"decoder"}
            )

        return [record for record in self.of(folder) if fits(record)]


def group_by(records: Iterable[Record], by: Callable[[Record], str], key: str) -> list[Group]:
    """Records that agree on `by`, in its order; those without the number are left out."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.get(key) is not None:
            found.setdefault(by(record), []).append(record)
    return [Group(name, tuple(rows), key) for name, rows in sorted(found.items())]


def by_recipe(record: Record) -> str:
    return str(record.get("recipe"))


def find_results(folder: Path | None) -> Path:
    """The folder given; else ./results, the checkout's, the package's copy."""
    if folder is not None:
        if not folder.is_dir():
            raise CapsNetError(f"There is no folder '{folder}' of results.")
        return folder
    for place in (Path("results"), CHECKOUT, PACKAGED):
        if any(place.glob("*/*.json")):
            return place
    raise CapsNetError(
        "There are no results: neither ./results nor a copy in the package. Say where with --results."
    )
