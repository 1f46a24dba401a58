"""Weights computed by torch.

Letters: B batch, J classes, D pose size, C x H x W image.
"""

import numpy as np
import torch
from jaxtyping import Float, Int, Real

from capsnet.devices import set_threads
from capsnet.evaluate.evidence import Seen, evidence_of, look
from capsnet.opening import open_weights
from capsnet.serve.network import Computed, Network


class TorchNetwork(Network):
    """A run folder, a weights folder, or bundled weights; `opened` has their data set too."""

    def __init__(self, weights: str, threads: int | None = None) -> None:
        set_threads(threads)
        self.opened = open_weights(weights)
        self.model = model = self.opened.model
        super().__init__(weights, model.card, model.architecture)
        self.has_decoder = model.decoder is not None
        self.parameters = sum(p.numel() for p in model.encoder.parameters())

    @torch.inference_mode()
    def compute(self, pictures: Real[np.ndarray, "b c h w"], *, coupling: bool = False) -> Computed:
        images = self.preprocessing.apply(torch.from_numpy(pictures))
        if self.detector is None:
            seen = Seen(self.model(images, coupling=coupling), None, None)
        else:
            seen = look(self.model, images, coupling=coupling)
        output = seen.output
        shares = None if output.coupling is None else output.coupling.numpy()
        evidence = evidence_of(seen, images)
        return Computed(output.scores.numpy(), output.poses.numpy(), shares, evidence)

    @torch.inference_mode()
    def reconstruct(
        self, poses: Float[np.ndarray, "b ..."], classes: Int[np.ndarray, "b"]
    ) -> Float[np.ndarray, "b c h w"]:
        drawn: np.ndarray = self.model.reconstruct(torch.from_numpy(poses), torch.from_numpy(classes)).numpy()
        return drawn
