"""`capsnet analyze cost`."""

from typing import Any

from rich import box
from rich.table import Table

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe, Names
from capsnet.errors import CapsNetError

# Mazzia et al. 2021, table 1: thousands of parameters, 10^9 operations.
REPORTED = {
    "capsnet": (6800, 0.401),
    "ar_capsnet": (5310, 0.098),
    "matrix_capsnet": (310, 0.086),
    "efficient_capsnet": (161, 0.06),
}


def cost(
    models: Names = (),
    /,
    *,
    data: Maybe[str] = None,
    batch: int = 16,
    seconds: float = 3.0,
    threads: Maybe[int] = None,
    json: Flag = False,
) -> None:
    """Measure parameters, operations, memory and speed of the models, beside the paper's figures.

    Args:
        models: Only these; all of them when left out.
        data: Size the models for the pictures and classes of this data set; each for its own paper's when left out.
        batch: Images in a training step.
        seconds: How long each timing goes on.
        threads: CPU threads; all when left out.
        json: Print one JSON document.
    """
    import torch

    from capsnet.analysis.speed import measure
    from capsnet.data.registry import get_dataset_info
    from capsnet.registry import create_model, get_entry, list_models
    from capsnet.train.provenance import provenance

    names = list(models or list_models())
    for name in names:
        get_entry(name)
    shape: dict[str, Any] = {}
    if data is not None:
        info = get_dataset_info(data)
        shape = {"image_shape": info.image_shape, "num_classes": len(info.class_names)}
    threads = threads or torch.get_num_threads()
    taken = provenance(torch.device("cpu"), threads)
    load = f", load {taken['load'][0]:.1f} before it" if taken["load"] else ""
    rows = []
    for name in names:
        if not models and shape:
            try:
                create_model(name, **shape)
            except CapsNetError as error:
                console.errors.print(f"leaving {name} out: {error}", style="dim")
                continue
        console.errors.print(f"measuring {name}", style="dim")
        reported = dict(zip(("parameters_k", "operations_g"), REPORTED.get(name, (None, None)), strict=True))
        rows.append({**measure(name, batch, seconds, threads, **shape), "reported": reported})
    if json:
        console.print_json({**taken, "data": data, "models": rows})
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("model", overflow="fold")
    headings = (
        "parameters",
        "reported",
        "operations",
        "reported",
        "training memory",
        "ms/image",
        "training images/s",
    )
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        parameters, operations = REPORTED.get(row["name"], (None, None))
        table.add_row(
            row["name"],
            f"{row['encoder_parameters']:,}",
            f"{parameters} K" if parameters else "-",
            f"{row['operations'] / 1e9:.3f} G",
            f"{operations} G" if operations else "-",
            f"{row['training_memory_mib']:.0f} MiB",
            f"{row['milliseconds_per_image']:.1f}",
            f"{row['training_images_per_second']:.0f}",
        )
    console.out.print(table)
    console.out.print(
        f"One run, batch {batch}{load}. Memory: what training adds to the model's own.",
        style="dim",
    )
