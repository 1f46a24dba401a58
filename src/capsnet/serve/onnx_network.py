"""Exported files computed by ONNX Runtime. Nothing here needs torch.

Letters: B batch, J classes, D pose size, C x H x W image.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, Real

from capsnet.data.preprocessing_numpy import apply_numpy
from capsnet.errors import CapsNetError
from capsnet.export.runtime import OnnxModel
from capsnet.serve.network import Computed, Network


class OnnxNetwork(Network):
    """An export's folder, its encoder.onnx or its model.onnx; the decoder.onnx beside it, if there is one, draws pictures."""

    def __init__(self, weights: str, threads: int | None = None) -> None:
        file = Path(weights)
        file = file / "encoder.onnx" if file.is_dir() else file
        self.encoder = OnnxModel(file, threads)
        if self.encoder.part == "decoder":
            raise CapsNetError(
                f"'{weights}' makes pictures from capsules; serve its folder, with encoder.onnx."
            )
        super().__init__(weights, self.encoder.card, self.encoder.architecture)
        beside = file.parent / "decoder.onnx"
        self.decoder = OnnxModel(beside, threads) if beside.is_file() else None
        if self.decoder is not None and not belong_together(self.encoder, self.decoder):
            raise CapsNetError(f"'{beside}' and '{file}' are parts of different networks; export them again.")
        self.has_decoder = self.decoder is not None
        self.parameters = None

    def compute(self, pictures: Real[np.ndarray, "b c h w"], *, coupling: bool = False) -> Computed:
        computed = self.encoder.run({"images": apply_numpy(self.preprocessing, pictures)})
        return Computed(computed["scores"], computed["poses"], computed.get("coupling") if coupling else None)

    def reconstruct(
        self, poses: Float[np.ndarray, "b ..."], classes: Int[np.ndarray, "b"]
    ) -> Float[np.ndarray, "b c h w"]:
        assert self.decoder is not None
        inputs = {"poses": poses, "classes": classes.astype(np.int64)}
        drawn: np.ndarray = self.decoder.run({name: inputs[name] for name in self.decoder.inputs})[
            "reconstruction"
        ]
        return drawn


def belong_together(encoder: OnnxModel, decoder: OnnxModel) -> bool:
    """Tell whether two files come from the same weights."""
    return (encoder.architecture, encoder.card) == (decoder.architecture, decoder.card)
