"""Run a list of long trainings in the background, most valuable first, and keep each result as it ends.

Every entry is one `capsnet train` into `RUNS/GROUP/NAME`. Finished runs are skipped and stopped ones resumed, so the
queue can be killed and started again at any time. Start it from a clone at a fixed commit, so that work in progress
elsewhere does not change a training that is under way:

    nice -n 19 python experiments/run_list.py --runs ../runs --results ../main/results --jobs 2

The list is read again after every run, from `--list` if given, so entries can be added while the queue is running.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).with_name("run_list.json")


class Entry(NamedTuple):
    """One training: the folder of its result, its name, and the arguments of `capsnet train`."""

    group: str
    name: str
    arguments: list[str]


def read_entries(path: Path) -> list[Entry]:
    """Expand each line of the list into one entry per seed."""
    entries = []
    for line in json.loads(path.read_text()):
        for seed in line["seeds"]:
            arguments = [*line["train"].split(), "--seed", str(seed)]
            entries.append(Entry(line["group"], f"{line['name']}-s{seed}", arguments))
    return entries


def next_entry(path: Path, runs: Path, taken: list[Entry]) -> Entry | None:
    """Return the first entry that is not taken and not finished."""
    for entry in read_entries(path):
        if entry not in taken and not (runs / entry.group / entry.name / "result.json").is_file():
            return entry
    return None


def note(text: str) -> None:
    """Print a line with the time."""
    print(time.strftime("%H:%M:%S"), text, flush=True)


def start(entry: Entry, runs: Path) -> subprocess.Popen[bytes]:
    """Start one training with one thread; its output goes to log.txt in the run folder."""
    folder = runs / entry.group / entry.name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", "from capsnet.cli import main; main()", "train", *entry.arguments]
    command += ["--threads", "1", "--out", str(folder), "--resume"]
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def keep(entry: Entry, runs: Path, results: Path) -> None:
    """Copy the result of a finished run to results/GROUP/NAME.json."""
    target = results / entry.group / f"{entry.name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(runs / entry.group / entry.name / "result.json", target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True, help="the folder of all run folders")
    parser.add_argument("--results", type=Path, required=True, help="where results are kept")
    parser.add_argument("--list", type=Path, default=LIST, help="a JSON list of {group, name, train, seeds}")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at the same time")
    options = parser.parse_args()
    running: list[tuple[Entry, subprocess.Popen[bytes]]] = []
    failed: list[Entry] = []

    while True:
        while len(running) < options.jobs:
            taken = [*(entry for entry, _ in running), *failed]
            entry = next_entry(options.list, options.runs, taken)
            if entry is None:
                break
            running.append((entry, start(entry, options.runs)))
            note(f"started {entry.group}/{entry.name}")
        if not running:
            note("nothing left to run")
            return
        time.sleep(2)
        for entry, process in list(running):
            if process.poll() is None:
                continue
            running.remove((entry, process))
            note(f"ended {entry.group}/{entry.name} with code {process.returncode}")
            if process.returncode == 0:
                keep(entry, options.runs, options.results)
            else:
                failed.append(entry)


if __name__ == "__main__":
    main()
