"""`capsnet data list | fetch | make | show | check`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.table import Table
from tyro.conf import Positional
from tyro.extras import SubcommandApp

import capsnet
from capsnet.cli import console
from capsnet.cli.data_check import check
from capsnet.cli.options import Flag, Maybe, Pairs, parse_pairs
from capsnet.errors import CapsNetError

if TYPE_CHECKING:
    from capsnet.data.base import DataSet

WIDE = 100  # columns of a terminal that the whole table fits into


def build_app() -> SubcommandApp:
    """The commands under `capsnet data`."""
    app = SubcommandApp()
    app.command(name="list")(list_data)
    app.command(name="fetch")(fetch)
    app.command(name="make")(make)
    app.command(name="show")(show)
    app.command(name="check")(check)
    return app


def list_data(*, data_dir: Maybe[Path] = None, json: Flag = False) -> None:
    """List every data set: size, shape, classes, licence, and where it is on this machine.

    Args:
        data_dir: Where data sets are looked for first.
        json: Print one JSON document.
    """
    from capsnet.data import list_datasets

    rows: list[dict[str, Any]] = []
    for info in list_datasets():
        found = info.find(data_dir)
        rows.append(
            {
                "name": info.name,
                "summary": info.summary,
                "train_images": info.train_images,
                "test_images": info.test_images,
                "image_shape": list(info.image_shape),
                "num_classes": len(info.class_names),
                "class_names": list(info.class_names),
                "licence": info.licence,
                "found": str(found) if found else None,
                "fetchable": info.fetch is not None,
                "generated": info.make is not None,
            }
        )
    if json:
        console.print_json(rows)
        return
    wide = console.out.width >= WIDE
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("name", no_wrap=True)
    for heading in ("train", "test", "image", "classes") if wide else ("train", "image"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("licence", "found") if wide else ("found",):
        table.add_column(heading, overflow="fold")
    for row in rows:
        train, test = f"{row['train_images']:,}", f"{row['test_images']:,}"
        image = "x".join(map(str, row["image_shape"]))
        cells = (train, test, image, str(row["num_classes"]), row["licence"]) if wide else (train, image)
        table.add_row(row["name"], *cells, _place(row))
    console.out.print(table)


def _place(row: dict[str, Any]) -> str:
    """Where a data set is, short enough for a table."""
    if row["found"] is None:
        verb = "fetch" if row["fetchable"] else "make" if row["generated"] else None
        return f"not here: capsnet data {verb} {row['name']}" if verb else "not here"
    found = Path(row["found"])
    if found.is_relative_to(Path(capsnet.__file__).parent):
        return "package"
    return f"~/{found.relative_to(Path.home())}" if found.is_relative_to(Path.home()) else str(found)


def fetch(name: Positional[str], /, *, data_dir: Maybe[Path] = None) -> None:
    """Download a data set, unless it is here already.

    Args:
        name: A data set's name (see `capsnet data list`).
        data_dir: Where it is looked for and put; CAPSNET_DATA or the user's cache folder when left out.
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from capsnet.data import get_dataset_info

    info = get_dataset_info(name)
    found = info.find(data_dir)
    if found is not None:
        console.out.print(f"{name} is in {found}.", markup=False, soft_wrap=True)
        return
    if info.fetch is None:
        raise CapsNetError(f"Data set '{name}' cannot be downloaded.")
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console.errors, disable=not console.errors.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def on_progress(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total)
            bars.update(tasks[file], completed=done)

        folder = info.fetch(data_dir, on_progress)
    console.out.print(f"{name} is in {folder}.", markup=False, soft_wrap=True)


def make(name: Positional[str], /, *, data_dir: Maybe[Path] = None) -> None:
    """Generate a data set, unless it is here already; what an interrupted call had finished is kept.

    Args:
        name: A data set's name (see `capsnet data list`).
        data_dir: Where it is looked for and put; CAPSNET_DATA or the user's cache folder when left out.
    """
    from rich.progress import Progress

    from capsnet.data import get_dataset_info, list_datasets

    info = get_dataset_info(name)
    if info.make is None:
        made = ", ".join(other.name for other in list_datasets() if other.make)
        raise CapsNetError(f"Data set '{name}' is not one that is generated; {made} is.")
    with Progress(console=console.errors, disable=not console.errors.is_terminal) as bar:
        task = bar.add_task(f"making {name}", total=None)

        def on_progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            if not console.errors.is_terminal:
                console.errors.print(f"{name}: {done} of {total} objects", highlight=False)

        folder = info.make(data_dir, on_progress)
    console.out.print(f"{name} is in {folder}.", markup=False, soft_wrap=True)


def show(
    name: Positional[str],
    /,
    *,
    out: Path,
    split: Literal["train", "test"] = "train",
    per_class: int = 10,
    augment: str = "none",
    seed: int = 0,
    data_options: Pairs = (),
    data_dir: Maybe[Path] = None,
) -> None:
    """Draw a labelled contact sheet, some images of each class, as the network gets them.

    Args:
        name: A data set's name (see `capsnet data list`), or a path to one's own pictures.
        out: The PNG file to write.
        split: Which part to show.
        per_class: How many images of each class.
        augment: Varied as in training, by an augmentation's name.
        seed: Picks the images and varies them.
        data_options: The data set's own, such as views=azimuth.
        data_dir: Where data sets are looked for first.
    """
    if not 1 <= per_class <= 100:
        raise CapsNetError(f"A sheet has 1 to 100 images of each class, not {per_class}.")
    from capsnet.data import load_dataset

    options = parse_pairs(data_options, "--data-options")
    sheet = draw_sheet(load_dataset(name, data_dir=data_dir, **options), split, per_class, augment, seed)
    try:
        sheet.save(out, format="PNG")
    except OSError as error:
        raise CapsNetError(f"{out} cannot be written: {error.strerror or error}.") from error
    console.out.print(f"{out}: {sheet.width} x {sheet.height}", markup=False, soft_wrap=True)


def draw_sheet(data: "DataSet", split: str, per_class: int, augment: str, seed: int) -> Any:
    """The sheet of one split: a row a class, or several for small classes in a row of ten."""
    import torch

    from capsnet.data.sheet import contact_sheet

    data.check_augmentation(augment)
    part = data.train if split == "train" else data.test
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(part.labels), generator=generator)
    chosen = [order[part.labels[order] == label][:per_class] for label in range(data.num_classes)]
    rows = part.select(torch.cat(chosen))
    plain = data.evaluation_batches(rows, 250)
    batches = list(plain) if augment == "none" else [data.training_batch(rows, augment, generator)]
    images = torch.cat([batch.images for batch in batches]).numpy()
    classes = torch.cat([batch.classes for batch in batches]).tolist()
    captions = [" + ".join(data.class_names[k] for k in image) for image in classes]
    return contact_sheet(images, captions, columns=per_class)
