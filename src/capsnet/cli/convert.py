"""`capsnet convert`."""

from pathlib import Path

from tyro.conf import Positional

from capsnet.cli import console
from capsnet.errors import CapsNetError


def convert(file: Positional[Path], /, *, out: Path, json: bool = False) -> None:
    """Convert the Keras weights of the paper's authors (.h5).

    The shapes of the arrays tell which of the paper's networks it is.

    Args:
        file: The authors' weights file.
        out: The folder to create; it must be new or empty.
        json: Print one JSON document.
    """
    from capsnet.convert import from_keras
    from capsnet.saving import save

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CapsNetError(f"'{out}' exists already and is not overwritten: choose another folder for --out.")
    model = from_keras(file)
    save(model, out)
    made = model.architecture
    encoder, decoder = (
        sum(p.numel() for p in part.parameters()) if part is not None else 0
        for part in (model.encoder, model.decoder)
    )
    if json:
        told = {
            "model": made.name,
            "image_shape": list(made.image_shape),
            "num_classes": made.num_classes,
            "encoder_parameters": encoder,
            "decoder_parameters": decoder,
            "out": str(out),
        }
        console.print_json(told)
        return
    console.out.print(
        f"{file} is {made.name}: {encoder:,} parameters, {decoder:,} more in its decoder. Written to {out}.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
