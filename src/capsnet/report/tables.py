"""The paper's tables, reported beside ours. A cell without a result says the command that fills it."""

from collections.abc import Sequence

from capsnet.report import paper
from capsnet.report.records import Group, Results, by_recipe, group_by
from capsnet.report.table import Cell, Number, Table, number, ours, plain

TEST = "test_error_percent"
HONEST = (
    "Reported: the paper's, a mean of 30 trials whose checkpoints its program picked on the test set. Ours: selected on "
    "held-out training images, tested once; every seed counts."
)


def trials(
    dataset: str, model: str, *, decoder: bool | None = None, recipe: str = "paper", seeds: int = 30
) -> str:
    """The command that fills a cell of errors."""
    plain_network = " --no-reconstruction" if decoder is False else ""
    return f"capsnet trials {dataset} --model {model}{plain_network} --recipe {recipe} --seeds {seeds} --record results"


def error_table(
    results: Results, dataset: str, rows: tuple[paper.ErrorRow, ...], key: str, title: str
) -> Table:
    """The MNIST and the smallNORB table."""
    lines = []
    for row in rows:
        groups = group_by(results.runs(dataset, row.model, decoder=row.decoder), by_recipe, TEST)
        counted = sorted({r["encoder_parameters"] for g in groups for r in g.records})
        lines.append(
            [
                plain(row.method),
                plain(row.reconstruction),
                number(row.parameters_k),
                number(", ".join(f"{n / 1000:.1f}" for n in counted) or "-"),
                number(row.reported),
                ours(groups, trials(dataset, row.model, decoder=row.decoder)),
            ]
        )
    headings = ("method", "reconstruction", "parameters [K], reported", "ours", "error [%], reported", "ours")
    return Table(key, title, headings, lines, HONEST)


def ensemble_cells(results: Results, dataset: str, command: str, keys: Sequence[str] = (TEST,)) -> list[Cell]:
    """The errors of all ensembles kept of a data set, or the command that would fill the cells."""
    found = [r for r in results.of("ensembles") if r["dataset"] == dataset]

    def line(record: dict, key: str) -> Number:
        chosen = f"chosen on {on} images" if (on := record["selected_on"]) else "none chosen"
        how = f"{len(record['members'])} networks, {chosen}"
        value = record["ensemble"][key]
        return Number(f"{value:.2f}", how, value, f"ensemble.{key}", (record["file"],))

    if not found:
        return [Cell(command=command) for _ in keys]
    return [Cell(lines=tuple(line(record, key) for record in found)) for key in keys]


def ensemble_table(results: Results) -> Table:
    mnist = "capsnet ensemble runs/mnist-efficient_capsnet-paper --above 0.9973 --out results/ensembles/mnist.json"
    norb = (
        "capsnet ensemble runs/smallnorb-efficient_capsnet_smallnorb-paper --best 2 --patches 40 "
        "--out results/ensembles/smallnorb.json"
    )
    rows = [
        [plain("mnist"), plain(m), plain(y), number(f"{e:.2f}"), plain("")] for m, y, e in paper.ENSEMBLES
    ]
    rows.append(
        [
            plain("mnist"),
            plain("Efficient-CapsNet, ours"),
            plain(""),
            plain(""),
            *ensemble_cells(results, "mnist", mnist),
        ]
    )
    rows.append(
        [
            plain("smallnorb"),
            plain("Efficient-CapsNet, the best two, 40 patches each"),
            plain("2021"),
            number(f"{paper.SMALLNORB_ENSEMBLE:.2f}"),
            *ensemble_cells(results, "smallnorb", norb),
        ]
    )
    note = "With --select-on-test the members are chosen as the paper chose them; the result is labelled so."
    headings = ("data", "method", "year", "error [%], reported", "ours")
    return Table("ensembles", "Ensembles", headings, rows, note)


def multimnist_table(results: Results) -> Table:
    model = "efficient_capsnet_multimnist"
    runs = results.runs("multimnist", model)
    command = trials("multimnist", model, seeds=5)
    rows = [
        [plain("CapsNet (Sabour 2017), 9.4 M parameters"), number("5.2"), plain("-"), plain("-")],
        [
            plain("Efficient-CapsNet, 154 K parameters"),
            number(paper.MULTIMNIST),
            ours(group_by(runs, by_recipe, "test_pair_error_percent"), command),
            ours(group_by(runs, by_recipe, "test_digit_error_percent"), command),
        ],
    ]
    fill = (
        "capsnet ensemble runs/multimnist-efficient_capsnet_multimnist-paper --best 3 "
        "--out results/ensembles/multimnist.json"
    )
    keys = ("test_pair_error_percent", "test_digit_error_percent")
    cells = ensemble_cells(results, "multimnist", fill, keys)
    rows.append(
        [plain("Efficient-CapsNet, ensemble of three"), number(f"{paper.MULTIMNIST_ENSEMBLE:.1f}"), *cells]
    )
    note = (
        "Two errors are in use. Pair error: both digits must be right (Sabour). Digit error: half credit for one of two, "
        "which is what the program of the paper's authors counts. The paper does not say which its number is."
    )
    headings = ("method", "error [%], reported", "pair error [%], ours", "digit error [%], ours")
    return Table("multimnist", "MultiMNIST", headings, rows, note)


def overfitting_table(results: Results) -> Table:
    rows = []
    for dataset in ("mnist", "fashion_mnist", "smallnorb", "toyviews"):
        for record in results.runs(dataset):
            source = (record["file"],)
            cells = [
                Cell(lines=(Number(f"{record[key]:.2f}", "", record[key], key, source),))
                if record.get(key) is not None
                else plain("-")
                for key in ("train_error_percent", "validation_error_percent", TEST)
            ]
            rows.append(
                [
                    plain(dataset),
                    plain(record["model"]),
                    plain(record["recipe"]),
                    number(record["seed"]),
                    *cells,
                ]
            )
    if not rows:
        rows = [[plain("mnist"), *[plain("")] * 3, Cell(command="capsnet train mnist"), plain(""), plain("")]]
    note = (
        "The paper: Efficient-CapsNet does not overfit, its accuracy on the training set is similar to that on the test set. "
        "Training errors here are taken without augmentation, on as many training images as there are test images."
    )
    headings = (
        "data",
        "model",
        "recipe",
        "seed",
        "training error [%]",
        "validation error [%]",
        "test error [%]",
    )
    return Table("overfitting", "Training error beside test error", headings, rows, note)


def own_table(
    results: Results, dataset: str, key: str, title: str, note: str, models: tuple[str, ...]
) -> Table:
    """Data sets that the paper does not have."""
    names = sorted({*models, *(r["model"] for r in results.runs(dataset))})
    rows = [
        [
            plain(model),
            ours(
                group_by(results.runs(dataset, model), by_recipe, TEST),
                trials(dataset, model, recipe="quick", seeds=5),
            ),
        ]
        for model in names
    ]
    return Table(key, title, ("model", "test error [%], ours"), rows, note)


def views_table(results: Results) -> Table:
    """Training on some viewpoints, testing on the others."""
    rows = []
    for dataset in ("smallnorb", "toyviews"):
        records = [
            r for r in results.of(dataset) if r.get("config", {}).get("dataset_options", {}).get("views")
        ]

        def name(record: dict) -> str:
            return f"{record['model']}, {record['config']['dataset_options']['views']}"

        groups = group_by(records, name, TEST)
        rows += [
            [plain(dataset), plain(g.recipe), ours([Group(g.records[0]["recipe"], g.records)], "")]
            for g in groups
        ]
        if not groups:
            command = f"capsnet trials {dataset} --data-options views=azimuth --recipe quick --seeds 5 --record results"
            rows.append([plain(dataset), plain("-"), Cell(command=command)])
    note = (
        "Trained on some azimuths or elevations, tested on the others. The paper leaves this to future work."
    )
    return Table(
        "viewpoints", "Novel viewpoints", ("data", "model, protocol", "test error [%], ours"), rows, note
    )


def budget_table(results: Results, group: str, title: str, note: str) -> Table:
    """All systems, routings, or both with and without reconstruction, at the same number of images seen."""

    def name(record: dict) -> str:
        options = record["config"]["model_options"]
        said = options.get("routing") or record["model"]
        if group == "reconstruction":
            said += ", without" if options.get("decoder") is False else ", with"
        return f"{said}|{record['images_seen']:,}"

    records = [r for r in results.of("same_budget") if r.get("group") == group]
    rows = [
        [
            plain(g.recipe.split("|")[0]),
            number(g.recipe.split("|")[1]),
            ours([Group("budget", g.records)], ""),
            number(f"{sum(r['images_per_second'] for r in g.records) / len(g.records):.0f}"),
        ]
        for g in sorted(group_by(records, name, TEST), key=lambda g: g.summary["mean"])
    ]
    if not rows:
        command = f"python experiments/same_budget.py --runs runs/budget --only {group}"
        rows = [[plain("all"), plain(""), Cell(command=command), plain("")]]
    headings = (
        "system" if group == "systems" else group,
        "images seen",
        "MNIST test error [%], ours",
        "images a second",
    )
    return Table(f"budget-{group}", title, headings, rows, note)
