"""Run an exported encoder behind a model's interface, so that `evaluate` tests a file exactly as it tests a model."""

import torch
from jaxtyping import Float
from torch import Tensor

from capsnet.data.base import DataSet
from capsnet.evaluate.metrics import Evaluation, evaluate
from capsnet.export.names import IMAGES, POSES, SCORES
from capsnet.export.runtime import open_session
from capsnet.models.base import CapsuleModel, Output


class RuntimeModel(CapsuleModel):
    """An exported encoder with a model's interface; `like` is the model that it was exported from."""

    def __init__(self, encoder: bytes, like: CapsuleModel) -> None:
        super().__init__(like.encoder, None, like.image_shape)
        self.session = open_session(encoder)
        self.like = like

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        scores, poses = self.session.run([SCORES, POSES], {IMAGES: images.numpy()})
        return Output(torch.from_numpy(poses), torch.from_numpy(scores))

    def classification_loss(
        self, output: Output, targets: Float[Tensor, "b j"], *, progress: float = 1.0
    ) -> Float[Tensor, ""]:
        # A softmax's logits are not in the file; the logarithm of its scores has the same softmax.
        logits = output.scores.clamp_min(1e-12).log()
        return self.like.classification_loss(output._replace(logits=logits), targets, progress=progress)


def evaluate_file(encoder: bytes, like: CapsuleModel, dataset: DataSet) -> Evaluation:
    """Test an exported encoder on the whole test set."""
    return evaluate(RuntimeModel(encoder, like), dataset, dataset.test)
