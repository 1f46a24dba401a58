"""Exported files computed by ONNX Runtime. Nothing here needs torch.

Letters: B batch, J classes, D pose size, C x H x W image.
"""

import numpy as np
from jaxtyping import Float, Int, Real

from capsnet.data.preprocessing_numpy import apply_numpy
from capsnet.export.system import OnnxSystem
from capsnet.serve.network import Computed, Network


class OnnxNetwork(Network):
    """An export's folder, its encoder.onnx or its model.onnx; the decoder.onnx beside it, if there is one, draws pictures."""

    def __init__(self, weights: str, threads: int | None = None) -> None:
        self.system = OnnxSystem(weights, threads)
        super().__init__(weights, self.system.card, self.system.architecture)
        self.has_decoder = self.system.decoder is not None
        self.parameters = None

    def compute(self, pictures: Real[np.ndarray, "b c h w"], *, coupling: bool = False) -> Computed:
        computed, evidence = self.system.look(apply_numpy(self.preprocessing, pictures))
        shares = computed.get("coupling") if coupling else None
        return Computed(computed["scores"], computed["poses"], shares, evidence)

    def reconstruct(
        self, poses: Float[np.ndarray, "b ..."], classes: Int[np.ndarray, "b"]
    ) -> Float[np.ndarray, "b c h w"]:
        return self.system.draw(poses, classes)
