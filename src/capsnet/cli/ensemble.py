"""`capsnet ensemble`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from rich import box
from rich.table import Table
from tyro.conf import Positional, arg

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe
from capsnet.cli.trials import Lines, LiveTable
from capsnet.errors import CapsNetError

Runs = Positional[Annotated[tuple[str, ...], arg(help_behavior_hint="")]]


def ensemble(
    runs: Runs,
    /,
    *,
    best: Maybe[int] = None,
    above: Maybe[float] = None,
    select_on_test: Flag = False,
    greedy: Maybe[int] = None,
    patches: int = 1,
    views: Maybe[str] = None,
    train_in: Maybe[Path] = None,
    jobs: int = 1,
    save: Maybe[Path] = None,
    no_test: Flag = False,
    data_dir: Maybe[Path] = None,
    out: Maybe[Path] = None,
    json: Flag = False,
) -> None:
    """Join several networks: average, choose, train or save them.

    Args:
        runs: Run folders, folders of `capsnet trials` (all their runs), weights, or a JSON file that lists members, which are
            trained unless they are (`capsnet.trials.members` describes it).
        best: Keep the N runs with the lowest validation error.
        above: Keep the runs with a validation accuracy above this, such as 0.997.
        select_on_test: Choose by the test error instead, as the paper did, and of runs with --watch-test the best epoch too;
            the result says so.
        greedy: Choose up to N settings by what their runs of all folds (`train --fold`) say of the images that they held out,
            and test nothing; --out then writes a file that lists the chosen members, for this command to train.
        patches: Average each network's scores over this many crops of each test image first, for cropped data sets (smallNORB).
        views: Average them over views of each image: itself and, of "shift,turn,slant,zoom" those named, itself moved or turned
            a little, as far as a number says (shift=1,turn=5).
        train_in: The folder of the runs of listed members; runs/FILE's name when left out.
        jobs: How many of them train at the same time.
        no_test: With --save: leave the test set unread, for a mixture that is a teacher while settings are chosen.
        save: Also write all networks as one into this new folder, which every command opens like any weights.
        data_dir: The folder to look for data sets in first.
        out: Also write the result to this JSON file.
        json: Print one JSON document.
    """
    if not runs:
        raise CapsNetError("Name at least one run.")
    for name, value in (("--best", best), ("--greedy", greedy), ("--patches", patches), ("--jobs", jobs)):
        if value is not None and value < 1:
            raise CapsNetError(f"{name} is at least 1; got {value}.")
    if above is not None and not 0 <= above < 1:
        raise CapsNetError(f"--above is an accuracy from 0 to 1; got {above}.")
    if greedy is not None and (best, above, select_on_test, save) != (None, None, False, None):
        raise CapsNetError(
            "--greedy chooses settings, not networks: leave out --best, --above, --select-on-test and --save."
        )
    if no_test and (save is None or (best, above, select_on_test) != (None, None, False)):
        raise CapsNetError(
            "--no-test only saves: say where with --save, and leave out --best, --above and --select-on-test."
        )
    if select_on_test and save is not None:
        raise CapsNetError(
            "--save keeps no members that were chosen on the test set: leave out --select-on-test."
        )
    from capsnet.files import write_json

    places = train_listed(runs, train_in, jobs, data_dir)
    if greedy is not None:
        from capsnet.evaluate.out_of_fold import choose_greedily, describe_choice, read_candidates

        candidates = read_candidates([Path(place) for place in places], data_dir=data_dir, views=views)
        result = {**describe_choice(candidates, choose_greedily(candidates, greedy)), "views": views}
    elif no_test:
        from capsnet.evaluate.mixtures import save_mixture

        made = save_mixture(places, save or Path(), views=views)
        result = {"saved": str(save), "members": made.card.provenance["members"], "views": views}
    else:
        from capsnet.evaluate.ensembles import choose, describe_ensemble, open_members
        from capsnet.evaluate.mixtures import save_mixture

        members = open_members(
            places, data_dir=data_dir, patches=patches, views=views, best_on_test=select_on_test
        )
        chosen = choose(members, best=best, above=above, select_on_test=select_on_test)
        whole = best is None and above is None
        selected_on = "test" if select_on_test else None if whole else "validation"
        result = {
            **describe_ensemble(chosen, selected_on=selected_on),
            "patches": patches,
            **({"views": views} if views is not None else {}),
        }
        if save is not None:
            save_mixture([member.run for member in chosen], save, views=views, score=result["ensemble"])
    if out:
        write_json(out, result)
    if json:
        console.print_json(result)
    elif greedy is not None:
        show_choice(result)
    elif no_test:
        console.out.print(
            f"{save}: {len(places)} networks as one", markup=False, highlight=False, soft_wrap=True
        )
    else:
        show(result)


def train_listed(runs: Sequence[str], train_in: Path | None, jobs: int, data_dir: Path | None) -> list[str]:
    """Train the members that files list, and return all places with their run folders for each file."""
    from capsnet.trials.members import is_member_file, read_members
    from capsnet.trials.trial_process import LocalEngine
    from capsnet.trials.trials import train_all

    places: list[str] = []
    for place in runs:
        if not is_member_file(place):
            places.append(place)
            continue
        folder = train_in or Path("runs") / Path(place).stem
        trials = read_members(Path(place), folder)
        engine = LocalEngine(jobs)
        view = LiveTable(console.errors) if console.errors.is_terminal else Lines(console.errors)
        with view:
            train_all(trials, engine, threads=engine.threads, data_dir=data_dir, watch=view.show)
        failed = [
            f"{t.folder.name}: {t.note} ({t.folder / 'log.txt'})" for t in trials if t.state == "failed"
        ]
        if failed:
            raise CapsNetError(
                f"{len(failed)} of {len(trials)} members failed; the same command tries again. {'; '.join(failed)}"
            )
        places += [str(trial.folder) for trial in trials]
    return places


def show(result: dict[str, Any]) -> None:
    """Print the members in order, and what each adds."""
    keys = [key for key in result["members"][0] if key.startswith("test_")]
    count, selected_on = len(result["members"]), result["selected_on"]
    how = f"chosen by {selected_on} error" if selected_on else "none chosen"
    title = f"{count} member{'s' if count > 1 else ''} on {result['dataset']}, {how}"
    table = Table(box=box.SIMPLE, pad_edge=False, title=title)
    table.add_column("member", overflow="fold")
    for heading in ("validation", *(key.removesuffix("_percent").replace("_", " ") for key in keys)):
        table.add_column(heading, justify="right")
    table.add_column("ensemble so far", justify="right")
    table.add_column("all agree on", justify="right")
    for member, point in zip(result["members"], result["curve"], strict=True):
        validation = member["validation_error_percent"]
        table.add_row(
            member["run"],
            f"{validation:.2f} %" if validation is not None else "",
            *(f"{member[key]:.2f} %" for key in keys),
            " / ".join(f"{point[key.removeprefix('test_')]:.2f} %" for key in keys),
            f"{point['agreement_percent']:.2f} %",
        )
    console.out.print(table)
    errors = ", ".join(
        f"{key.removesuffix('_percent').replace('_', ' ')} {result['ensemble'][key]:.2f} %" for key in keys
    )
    note = " (members chosen on the test set)" if selected_on == "test" else ""
    console.out.print(f"Ensemble: {errors}{note}", highlight=False)


def show_choice(result: dict[str, Any]) -> None:
    """Print every candidate alone, then the members in the order in which they were taken."""
    of = f"{result['images']:,} training images of {result['dataset']}, each held out by its judge"
    for title, rows, name in (
        (f"Candidates on {of}", result["candidates"], "name"),
        ("Taken one after the other", result["steps"], "added"),
    ):
        table = Table(box=box.SIMPLE, pad_edge=False, title=title)
        table.add_column("setting", overflow="fold")
        table.add_column("loss", justify="right")
        table.add_column("errors", justify="right")
        for row in sorted(rows, key=lambda row: row["loss"]) if name == "name" else rows:
            table.add_row(row[name], f"{row['loss']:.6f}", str(row["errors"]))
        console.out.print(table)
