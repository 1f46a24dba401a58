"""Exported files that work together: an encoder, and the decoder beside it. torch is not needed, nor imported.

Letters: B batch, J classes, D pose size, C x H x W image.
"""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from capsnet.detection.measures import Evidence
from capsnet.errors import CapsNetError
from capsnet.export.names import PARTS, POSES, RECONSTRUCTION, SCORES
from capsnet.export.runtime import OnnxModel


class OnnxSystem:
    """An export's folder, its encoder.onnx or its model.onnx; the decoder.onnx beside it, if there is one, draws pictures.

    Args:
        threads: None uses all cores.
    """

    def __init__(self, weights: str | Path, threads: int | None = None) -> None:
        file = Path(weights)
        file = file / "encoder.onnx" if file.is_dir() else file
        self.encoder = OnnxModel(file, threads)
        if self.encoder.part == "decoder":
            raise CapsNetError(
                f"'{weights}' makes pictures from capsules; name its folder, or encoder.onnx or model.onnx."
            )
        self.card, self.architecture = self.encoder.card, self.encoder.architecture
        beside = file.parent / "decoder.onnx"
        self.decoder = OnnxModel(beside, threads) if beside.is_file() else None
        if self.decoder is not None and not belong_together(self.encoder, self.decoder):
            raise CapsNetError(f"'{beside}' and '{file}' are parts of different networks; export them again.")

    def look(self, images: Float[np.ndarray, "b c h w"]) -> tuple[dict[str, Any], Evidence]:
        """Return what the encoder computes, and the evidence in it as far as the card has a use for it."""
        computed = self.encoder.run({"images": images})
        scores, drawn = computed[SCORES], computed.get(RECONSTRUCTION)
        if not self.card.detection:
            return computed, Evidence(scores)
        if drawn is None and self.decoder is not None:
            drawn = self.draw(computed[POSES], scores.argmax(axis=1))
        parts = computed.get(PARTS)
        rows = None if parts is None else parts.reshape(len(scores), -1)
        return computed, Evidence(scores, None if drawn is None else images, drawn, rows)

    def draw(
        self, poses: Float[np.ndarray, "b ..."], classes: Int[np.ndarray, "b"]
    ) -> Float[np.ndarray, "b c h w"]:
        """Draw the pictures (0..1) of one class each."""
        assert self.decoder is not None
        inputs = {"poses": poses, "classes": classes.astype(np.int64)}
        drawn: np.ndarray = self.decoder.run({name: inputs[name] for name in self.decoder.inputs})[
            RECONSTRUCTION
        ]
        return drawn


def belong_together(encoder: OnnxModel, decoder: OnnxModel) -> bool:
    """Tell whether two files come from the same weights."""
    return (encoder.architecture, encoder.card) == (decoder.architecture, decoder.card)
