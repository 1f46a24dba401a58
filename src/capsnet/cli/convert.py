"""`capsnet convert`: the authors' published weights as a weights folder of this library."""

import json as json_module
from pathlib import Path
from typing import Annotated

import tyro

from capsnet.errors import CapsNetError


def convert(
    file: tyro.conf.Positional[Path],
    *,
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")],
    json: bool = False,
) -> None:
    """Convert weights that the authors' Keras program wrote (.h5) into a weights folder.

    Which of the paper's networks it is, is told from the arrays' shapes.

    Args:
        file: the authors' weights file.
        out: the folder to make; one that holds anything already is not touched.
        json: print what was converted as JSON.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CapsNetError(f"'{out}' exists already and is not overwritten: choose another folder for --out.")
    # Here and not above: they import torch, which `capsnet --help` does without.
    from capsnet.convert import from_keras
    from capsnet.saving import save

    model = from_keras(file)
    save(model, out)
    encoder, decoder = (
        sum(p.numel() for p in part.parameters()) if part is not None else 0
        for part in (model.encoder, model.decoder)
    )
    made = model.architecture
    if json:
        told = {
            "model": made.name,
            "image_shape": list(made.image_shape),
            "num_classes": made.num_classes,
            "encoder_parameters": encoder,
            "decoder_parameters": decoder,
            "out": str(out),
        }
        print(json_module.dumps(told))
    else:
        print(f"{file} is {made.name}: {encoder:,} parameters, {decoder:,} in its decoder. Written to {out}.")
