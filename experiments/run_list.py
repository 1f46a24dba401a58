"""Run a list of long trainings in the background, most valuable first, and keep each result as it ends.

Every entry is one `capsnet train` into `RUNS/GROUP/NAME`. Finished runs are skipped and stopped ones resumed, so the
queue can be killed and started again at any time. Start it from a clone at a fixed commit, so that work in progress
elsewhere does not change a training that is under way:

    nice -n 19 python experiments/run_list.py --runs ../runs --results ../main/results --jobs 2

The list is read again after every run, from `--list` if given, so entries can be added while the queue is running.

A line of the list has a group, a name, and `train`, the arguments of `capsnet train`; with `seeds` it stands for one run
for each, and with `folds` for one run for each fold of the training writers, NAME-fold1-s0 and so on. In the arguments
{runs} is the folder of all runs and {fold} the number of the fold, so that a run can name another as its teacher; it then
waits for it. In place of `train` a line may have `mix`: the weights that are joined into one, as a teacher for later lines.
Nothing is tested then.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).with_name("run_list.json")


class Entry(NamedTuple):
    """One run: the folder of its result, its name, the command, `train` or `mix`, and its arguments."""

    group: str
    name: str
    command: str
    arguments: list[str]

    def folder(self, runs: Path) -> Path:
        """Return the run folder, or that of the mixture."""
        return runs / self.group / self.name

    def finished(self, runs: Path) -> bool:
        """Tell whether the run has ended well."""
        return is_finished(self.folder(runs))

    def waits(self, runs: Path) -> bool:
        """Tell whether an argument names a run that has not ended yet."""
        named = [Path(word) for word in self.arguments if word.startswith(f"{runs}/")]
        return not all(is_finished(folder) for folder in named)


def is_finished(folder: Path) -> bool:
    """Tell whether a folder holds a finished run or a mixture."""
    return (folder / "result.json").is_file() or (folder / "model.safetensors").is_file()


def read_entries(path: Path, runs: Path) -> list[Entry]:
    """Expand each line of the list into one entry per seed and fold."""
    entries = []
    for line in json.loads(path.read_text()):
        command = "mix" if "mix" in line else "train"
        folds = line.get("folds", 0)
        for seed in line.get("seeds", [0]):
            for fold in range(1, folds + 1) if folds else [0]:
                given = line[command].replace("{runs}", str(runs)).replace("{fold}", str(fold))
                arguments = shlex.split(given)
                if command == "train":
                    arguments += ["--hold-out", "writers", "--fold", f"{fold}/{folds}"] if folds else []
                    arguments += ["--seed", str(seed)]
                name = f"{line['name']}{f'-fold{fold}' if folds else ''}-s{seed}"
                entries.append(Entry(line["group"], name, command, arguments))
    return entries


def next_entry(path: Path, runs: Path, taken: list[Entry]) -> Entry | None:
    """Return the first entry that is not taken, not finished, and has all that it needs."""
    for entry in read_entries(path, runs):
        if entry not in taken and not entry.finished(runs) and not entry.waits(runs):
            return entry
    return None


def note(text: str) -> None:
    """Print a line with the time."""
    print(time.strftime("%H:%M:%S"), text, flush=True)


def start(entry: Entry, runs: Path) -> subprocess.Popen[bytes]:
    """Start one training with one thread, or a mixture; the output of a training goes to log.txt in its folder."""
    folder = entry.folder(runs)
    command = [sys.executable, "-c", "from capsnet.cli import main; main()"]
    if entry.command == "train":
        folder.mkdir(parents=True, exist_ok=True)
        log_file = folder / "log.txt"
        command += ["train", *entry.arguments, "--threads", "1", "--out", str(folder), "--resume"]
    else:
        folder.parent.mkdir(parents=True, exist_ok=True)
        log_file = folder.with_name(f"{entry.name}.txt")
        command += ["ensemble", *entry.arguments, "--no-test", "--save", str(folder)]
    with log_file.open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def keep(entry: Entry, runs: Path, results: Path) -> None:
    """Copy the result of a finished run to results/GROUP/NAME.json; a mixture has none."""
    if entry.command != "train":
        return
    target = results / entry.group / f"{entry.name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(entry.folder(runs) / "result.json", target)


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
