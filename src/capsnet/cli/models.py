"""`capsnet models`."""

from rich import box
from rich.table import Table

from capsnet.cli import console
from capsnet.cli.options import Flag


def models(*, json: Flag = False) -> None:
    """List every model with its image shape, parameters and operations.

    Args:
        json: Print one JSON document.
    """
    from capsnet.evaluate.cost import describe_model
    from capsnet.registry import list_models

    rows = [describe_model(name) for name in list_models()]
    if json:
        console.print_json(rows)
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("model", overflow="fold")
    for heading in ("image", "classes", "encoder", "decoder", "operations"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row["name"],
            "x".join(map(str, row["image_shape"])),
            str(row["num_classes"]),
            f"{row['encoder_parameters']:,}",
            f"{row['decoder_parameters']:,}" if row["decoder_parameters"] else "-",
            f"{row['operations'] / 1e6:.1f} M",
        )
    console.out.print(table)
    console.out.print("Operations: 2 x multiply-accumulates of one image through the encoder.", style="dim")
