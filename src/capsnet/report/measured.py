"""The tables that are computed, not read: what networks cost, and the equivariance table with its random row."""

from typing import Any

from capsnet.analysis.equivariance import random_shares
from capsnet.evaluate.cost import describe_model
from capsnet.registry import list_models
from capsnet.report import paper
from capsnet.report.records import Results
from capsnet.report.table import Cell, Number, Table, number, plain

NEAR = 0.05  # a count within five percent of the reported one is the same


def measure_costs() -> dict[str, dict[str, Any]]:
    """Parameters and operations of those of the paper's systems that are there."""
    known = set(list_models())
    return {model: describe_model(model) for _, model, *_ in paper.COST if model in known}


def cost_table(costs: dict[str, dict[str, Any]]) -> Table:
    """Table 1 with its improvement column, and the two claims made from it."""
    least = costs["efficient_capsnet"]["operations"]
    rows = []
    for method, model, parameters, operations, improvement in paper.COST:
        found = costs.get(model)
        said = number(f"{improvement:.2f}" if improvement is not None else "-")
        if found is None:
            missing = Cell(command=f"capsnet analyze cost {model}")
            rows.append(
                [plain(method), number(parameters), missing, number(operations), missing, said, missing]
            )
            continue
        fewer = 100 * (1 - least / found["operations"])
        rows.append(
            [
                plain(method),
                number(parameters),
                number(f"{found['encoder_parameters'] / 1000:,.1f}"),
                number(operations),
                number(f"{found['operations'] / 1e9:.4f}"),
                said,
                number(f"{fewer:.2f}" if model != "efficient_capsnet" else "-"),
            ]
        )
    headings = (
        "method",
        "parameters [K], reported",
        "ours, encoder",
        "operations [G], reported",
        "ours",
        "fewer operations [%], reported",
        "ours",
    )
    note = "Operations are 2 x multiply-accumulates of one image through the encoder, counted while it runs."
    return Table("cost", "What a network costs", headings, rows, note, claims(costs))


def claims(costs: dict[str, dict[str, Any]]) -> list[str]:
    """The abstract's two numbers, checked."""
    if "capsnet" not in costs:
        return []
    ours, theirs = costs["efficient_capsnet"], costs["capsnet"]
    fewer = 100 * (1 - ours["operations"] / theirs["operations"])
    share = 100 * ours["encoder_parameters"] / theirs["encoder_parameters"]
    return [
        f"Claim “85 % fewer operations than CapsNet”: {fewer:.1f} % here.",
        f"Claim “2 % of the original CapsNet parameters”: {share:.2f} % here, decoders left out on both sides.",
    ]


def cost_mismatches(costs: dict[str, dict[str, Any]]) -> list[str]:
    """Counts that come out differently."""
    found = []
    for method, model, parameters, operations, _ in paper.COST:
        if model not in costs:
            continue
        with_decoder = (costs[model]["encoder_parameters"] + costs[model]["decoder_parameters"]) / 1e3
        for what, mine, said, unit in (
            ("operations", costs[model]["operations"] / 1e9, operations, "G"),
            ("parameters", costs[model]["encoder_parameters"] / 1e3, parameters, "K"),
        ):
            if what == "parameters" and abs(with_decoder - said) < NEAR * said < abs(mine - said):
                found.append(
                    f"{method}: the reported {said} K parameters include the decoder ({mine:.0f} K without)."
                )
            elif abs(mine - said) > NEAR * said:
                found.append(f"{method}: {said} {unit} {what} reported, {mine:.4g} {unit} counted here.")
    return found


def random_row(images: int = 10_000) -> tuple[float, float]:
    """Percent in the first component for 11 and for 51 random vectors."""
    return tuple(100 * float(random_shares(images, k)[:, 0].mean()) for k in (11, 51))  # type: ignore[return-value]


def equivariance_table(results: Results) -> Table:
    """Reported and ours for each transformation; then per class and the linear read-out."""
    eleven, fifty_one = random_row()
    rows = []
    for method, model, reported in paper.EQUIVARIANCE:
        cells: list[Cell]
        records = [r for r in results.of("equivariance") if r["model"] == model]
        if model is None:
            cells = [number(f"{v:.2f}") for v in (eleven, eleven, fifty_one)]
        elif not records:
            limit = "" if model == "efficient_capsnet" else " --images 2000"
            command = f"capsnet analyze equivariance {model}.mnist{limit} --out equivariance --record results"
            cells = [Cell(command=command)] * 3
        else:
            record = records[0]
            note = (
                "all test images" if record["all_test_images"] else f"{record['images']:,} seeded test images"
            )
            cells = []
            for name in ("x", "y", "rotation"):
                value = record["table"][name]["first_component_percent"]
                key = f"table.{name}.first_component_percent"
                cells.append(Cell(lines=(Number(f"{value:.2f}", note, value, key, (record["file"],)),)))
        rows.append(
            [plain(method), *(c for pair in zip(map(number, reported), cells, strict=True) for c in pair)]
        )
    headings = ("method", *(h for t in ("x", "y", "rotations") for h in (f"{t} [%], reported", "ours")))
    note = (
        "The share of the variance of the true class's capsule that the first principal component has, mean over test "
        "images. Reported deviations are as printed; over single images the deviation is several percent."
    )
    return Table("equivariance", "Equivariance", headings, rows, note)


def linear_table(results: Results) -> Table:
    """Beyond the paper: one linear map a class from the capsule to the parameter."""
    records = [r for r in results.of("equivariance") if "linear" in r]
    names = list(records[0]["linear"]) if records else ["x", "y", "rotation", "scale", "thickness"]
    rows = []
    for record in records:
        cells = []
        for name in names:
            value = record["linear"][name]["r_squared"]
            if value is None:  # too few images
                cells.append(plain("-"))
                continue
            key = f"linear.{name}.r_squared"
            cells.append(Cell(lines=(Number(f"{value:.2f}", "", value, key, (record["file"],)),)))
        rows.append([plain(record["model"]), number(f"{record['linear_images']:,}"), *cells])
    if not rows:
        command = "capsnet analyze equivariance efficient_capsnet.mnist --out equivariance --record results"
        rows = [[plain("efficient_capsnet"), plain(""), *[Cell(command=command)] * len(names)]]
    note = (
        "R squared on images not fitted to: how much of a transformation's parameter one linear map a class reads from the "
        "capsule. A high first component says that a capsule moves along a line; this says whether the line is shared."
    )
    return Table(
        "linear", "Reading the transformation from the capsule", ("model", "images", *names), rows, note
    )
