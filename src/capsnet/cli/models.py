"""`capsnet models`."""

from rich import box
from rich.table import Table

from capsnet.cli import console
from capsnet.cli.options import Flag

WIDE = 78  # columns of a terminal that shows all of the table


def models(*, json: Flag = False) -> None:
    """List every model with its parameters and operations.

    Args:
        json: Print one JSON document.
    """
    from capsnet.evaluate.cost import describe_model
    from capsnet.registry import list_models

    rows = [describe_model(name) for name in list_models()]
    if json:
        console.print_json(rows)
        return
    table = Table(box=box.SIMPLE, pad_edge=False, padding=0, collapse_padding=True)
    table.add_column("model", no_wrap=True)  # to be copied whole
    wide = console.out.width >= WIDE
    for heading in (
        ("image", "classes", "encoder", "decoder", "operations") if wide else ("encoder", "operations")
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        encoder, operations = f"{row['encoder_parameters']:,}", f"{row['operations'] / 1e6:.1f} M"
        decoder = f"{row['decoder_parameters']:,}" if row["decoder_parameters"] else "-"
        image = "x".join(map(str, row["image_shape"]))
        cells = (
            (image, str(row["num_classes"]), encoder, decoder, operations) if wide else (encoder, operations)
        )
        table.add_row(row["name"], *cells)
    console.out.print(table)
    console.out.print(
        "For the image and classes of the model's own paper; other data make it larger or smaller. "
        "Operations: 2 x multiply-accumulates of one image through the encoder.",
        style="dim",
    )
