"""`capsnet ensemble`."""

from pathlib import Path
from typing import Annotated, Any

from rich import box
from rich.table import Table
from tyro.conf import Positional, arg

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe
from capsnet.errors import CapsNetError

Runs = Positional[Annotated[tuple[str, ...], arg(help_behavior_hint="")]]


def ensemble(
    runs: Runs,
    /,
    *,
    best: Maybe[int] = None,
    above: Maybe[float] = None,
    select_on_test: Flag = False,
    patches: int = 1,
    data_dir: Maybe[Path] = None,
    out: Maybe[Path] = None,
    json: Flag = False,
) -> None:
    """Average the scores of several networks.

    Args:
        runs: Run folders, folders of `capsnet trials` (all their runs), or weights.
        best: Keep the N runs with the lowest validation error.
        above: Keep the runs with a validation accuracy above this, such as 0.997.
        select_on_test: Choose by the test error instead, as the paper did; the result says so.
        patches: Average each network's scores over this many crops of each test image first, for cropped data sets (smallNORB).
        data_dir: The folder to look for data sets in first.
        out: Also write the result to this JSON file.
        json: Print one JSON document.
    """
    if not runs:
        raise CapsNetError("Name at least one run.")
    if best is not None and best < 1:
        raise CapsNetError(f"--best is at least 1; got {best}.")
    if above is not None and not 0 <= above < 1:
        raise CapsNetError(f"--above is an accuracy from 0 to 1; got {above}.")
    if patches < 1:
        raise CapsNetError(f"--patches is at least 1; got {patches}.")
    from capsnet.evaluate.ensembles import choose, describe_ensemble, open_members
    from capsnet.files import write_json

    members = open_members(runs, data_dir=data_dir, patches=patches)
    chosen = choose(members, best=best, above=above, select_on_test=select_on_test)
    whole = best is None and above is None
    selected_on = "test" if select_on_test else None if whole else "validation"
    result = {**describe_ensemble(chosen, selected_on=selected_on), "patches": patches}
    if out:
        write_json(out, result)
    if json:
        console.print_json(result)
    else:
        show(result)


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
