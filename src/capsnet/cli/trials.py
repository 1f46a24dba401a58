"""`capsnet trials`."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from tyro.conf import Positional

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe, choose_kernels
from capsnet.cli.training_options import AS_THEY_ARE, Training
from capsnet.errors import CapsNetError

if TYPE_CHECKING:
    from capsnet.trials.trials import Engine, Trial

Watch = Callable[["Sequence[Trial]"], None]


def trials(
    dataset: Positional[str],
    /,
    *,
    options: Training = AS_THEY_ARE,
    seeds: int = 30,
    first_seed: int = 0,
    jobs: int = 1,
    engine: Literal["local", "ray"] = "local",
    address: Maybe[str] = None,
    cpus_per_trial: int = 1,
    gpus_per_trial: float = 0.0,
    storage: Maybe[Path] = None,
    data_dir: Maybe[Path] = None,
    out: Maybe[Path] = None,
    record: Maybe[Path] = None,
    save_every: float = 20.0,
    json: Flag = False,
) -> None:
    """Train many seeds of a recipe and summarise them.

    Finished seeds are kept, broken ones are resumed, and a failing one does not stop the others. Ctrl-C stops them all; the
    same command continues.

    Args:
        dataset: A data set's name (see `capsnet data list`), a folder of pictures, a CSV that lists them, or an .npz file.
        seeds: How many seeds.
        first_seed: The first of them.
        jobs: How many train at the same time on this machine; the CPU's threads are divided among them.
        engine: local for processes of this machine, ray for a Ray cluster.
        address: The Ray cluster's HOST:PORT, or auto on one of its machines; a new one on this machine when left out.
        cpus_per_trial: How many CPUs Ray reserves for each trial, which are its threads.
        gpus_per_trial: How many GPUs Ray reserves for each trial; also fractions such as 0.25.
        storage: A folder that all machines of the cluster see; the folder of all runs is created in it instead of in runs/.
        data_dir: Where data sets are looked for first.
        out: The folder of all runs; runs/DATASET-MODEL-RECIPE, or that in --storage, when left out.
        record: Also keep each result, as its seed ends, as DIR/DATASET/MODEL-RECIPE-sSEED.json, for `capsnet reproduce`.
        save_every: Seconds between states that a killed run can continue from.
        json: End with one JSON document on stdout.
    """
    from capsnet.registry import get_entry
    from capsnet.trials.trial_process import LocalEngine
    from capsnet.trials.trials import run_trials, summary

    if not Path(dataset).exists():
        from capsnet.data import get_dataset_info

        get_dataset_info(dataset)
    choose_kernels(options.kernels)
    config = options.make_config(dataset)
    get_entry(config.model)
    if storage is not None and not storage.is_dir():
        raise CapsNetError(f"There is no storage folder '{storage}': is it mounted?")
    if engine == "ray" and not (storage or out):
        raise CapsNetError(
            "With --engine ray say where the runs are kept: --storage, a folder that all nodes see."
        )
    folder = out or (storage or Path("runs")) / f"{Path(dataset).stem}-{system_name(config.to_dict())}"
    view = LiveTable(console.errors) if console.errors.is_terminal else Lines(console.errors)
    chosen: Engine
    if engine == "ray":
        from capsnet.trials.ray_trials import RayEngine

        folder = folder.absolute()
        chosen = RayEngine(address, cpus=cpus_per_trial, gpus=gpus_per_trial)
    else:
        chosen = LocalEngine(jobs)
    with view:
        done = run_trials(
            config,
            folder,
            range(first_seed, first_seed + seeds),
            engine=chosen,
            save_every=save_every,
            data_dir=data_dir,
            watch=recording(record, view.show) if record else view.show,
        )
    result = {**summary(config, done), "folder": str(folder)}
    if json:
        console.print_json(result)
    else:
        show_summary(result)
    failed = [trial for trial in done if trial.state == "failed"]
    if failed:
        which = "; ".join(f"seed {t.seed}: {t.note} ({t.folder / 'log.txt'})" for t in failed)
        raise CapsNetError(
            f"{len(failed)} of {len(done)} seeds failed; the same command tries again. {which}"
        )


def recording(place: Path, show: Watch) -> Watch:
    """Return a `watch` that shows the trials and keeps each result as a JSON file as soon as it is there."""
    from capsnet.data.registry import is_path
    from capsnet.files import write_json

    recorded: set[int] = set()

    def watch(trials: "Sequence[Trial]") -> None:
        show(trials)
        for trial in trials:
            if trial.result is not None and trial.seed not in recorded:
                name = f"{system_name(trial.result['config'])}-s{trial.seed}.json"
                dataset = trial.result["dataset"]
                folder = Path(dataset).stem if is_path(dataset) else dataset
                recorded.add(trial.seed)
                try:
                    write_json(place / folder / name, trial.result)
                except CapsNetError as error:  # the result is in the run's folder too; other seeds go on
                    console.errors.print(f"capsnet: {error}", highlight=False, soft_wrap=True)

    return watch


def system_name(config: dict[str, Any]) -> str:
    """Return the name of a folder of trials and of their records: model, its unusual options, recipe."""
    options = {**config["model_options"], **config["dataset_options"]}
    plain = ["no-reconstruction"] if options.pop("decoder", True) is False else []
    unusual = [*plain, *(f"{key}={value}" for key, value in sorted(options.items()))]
    fold = [f"fold{config['fold'].replace('/', 'of')}"] if config.get("fold") else []
    name = "-".join((config["model"], *unusual, config["recipe"]["name"], *fold))
    return re.sub(r'[/\\:*?"<>|]', "_", name)


def percent(value: Any) -> str:
    return f"{float(value):.2f} %" if value not in (None, "") else ""


def error_of(trial: "Trial", kind: str) -> Any:
    """Return the validation or test error of a finished trial; the pair error where there are two."""
    values = [
        v for k, v in (trial.result or {}).items() if k.startswith(kind) and k.endswith("error_percent")
    ]
    return values[0] if values else None


def label(trial: "Trial") -> str:
    """Return what tells a trial from the others: its seed, or the name of its settings too."""
    return trial.folder.name if trial.name else str(trial.seed)


def progress_table(trials: "Sequence[Trial]", rows: int) -> Table:
    """Return a table of all seeds; when not all fit, the running ones come first."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("seed", "state", "validation", "test", "minutes", ""):
        right = heading in ("seed", "validation", "test", "minutes")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    order = {"training": 0, "failed": 1, "done": 2, "elsewhere": 3, "waiting": 4}
    shown = list(trials) if len(trials) <= rows else sorted(trials, key=lambda t: order[t.state])[:rows]
    styles = {"failed": "red", "training": "bold", "waiting": "dim"}
    for trial in shown:
        table.add_row(
            label(trial),
            "kept" if trial.kept else trial.state,
            percent(
                error_of(trial, "validation") if trial.result else trial.row.get("validation_error_percent")
            ),
            percent(error_of(trial, "test")),
            f"{trial.result['seconds'] / 60:.1f}" if trial.result else "",
            "" if trial.state == "done" else trial.note,
            style=styles.get(trial.state),
        )
    left = len(trials) - len(shown)
    if left:
        table.add_row("...", f"{left} more", "", "", "", "")
    finished = sum(trial.state == "done" for trial in trials)
    table.caption = f"{finished} of {len(trials)} seeds finished"
    return table


class LiveTable:
    """A table that is updated in place."""

    def __init__(self, screen: Console) -> None:
        self.screen = screen
        self.live = Live(console=screen, auto_refresh=False)

    def __enter__(self) -> "LiveTable":
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def show(self, trials: "Sequence[Trial]") -> None:
        self.live.update(progress_table(trials, max(3, self.screen.height - 8)), refresh=True)


class Lines:
    """A line when a seed's state or epoch changes, for logs."""

    def __init__(self, screen: Console) -> None:
        self.screen = screen
        self.seen: dict[str, tuple[str, str]] = {}

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, trials: "Sequence[Trial]") -> None:
        for trial in trials:
            now = (trial.state, trial.row.get("epoch", ""))
            before = self.seen.get(label(trial), ("waiting", ""))
            self.seen[label(trial)] = now
            if now == before:
                continue
            text = f"{'' if trial.name else 'seed '}{label(trial)}: {'kept' if trial.kept else trial.state}"
            if trial.state == "done":
                text += f", test error {percent(error_of(trial, 'test'))}"
            elif trial.state == "failed":
                text += f": {trial.note}"
            elif trial.row:
                text += f", epoch {trial.row['epoch']}, loss {float(trial.row['loss']):.5f}"
                if trial.row.get("validation_error_percent"):
                    text += f", validation error {percent(trial.row['validation_error_percent'])}"
            self.screen.print(text, highlight=False, markup=False, soft_wrap=True)


def show_summary(result: dict[str, Any]) -> None:
    """Print the mean, deviation, range and interval of each error."""
    table = Table(box=box.SIMPLE, pad_edge=False, title=f"{result['finished']} seeds in {result['folder']}")
    table.add_column("")
    for heading in ("mean", "deviation", "min", "max", "95 % interval of the mean"):
        table.add_column(heading, justify="right")
    for key, s in result["errors"].items():
        spread = f"{s['deviation']:.3f}" if s["deviation"] is not None else ""
        interval = "{:.3f} to {:.3f}".format(*s["interval"]) if s["interval"] else ""
        name = key.removesuffix("_percent").replace("_", " ") + " (%)"
        table.add_row(name, f"{s['mean']:.3f}", spread, f"{s['min']:.2f}", f"{s['max']:.2f}", interval)
    console.out.print(table)
