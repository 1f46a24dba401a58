"""From a torch model to one ONNX graph, image in; scores, poses and reconstruction out.

torch's exporter runs once: the graph of the encoder and that of the decoder are cut out of the whole one (`parts.py`), so
that the three files cannot disagree.

Letters: B batch, C x H x W image.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import torch
from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError
from capsnet.export.digamma import translations
from capsnet.export.parts import CLASSES, IMAGES, POSES, RECONSTRUCTION, SCORES
from capsnet.models.base import CapsuleModel

OPSET = 20


class Whole(nn.Module):
    """What a file computes. The reconstructed class, the best-scored one, is an output so that the graph can be cut there."""

    def __init__(self, model: CapsuleModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Float[Tensor, "b c h w"]) -> tuple[Tensor, ...]:
        output = self.model(images)
        if self.model.decoder is None:
            return output.scores, output.poses
        classes = output.scores.argmax(dim=1)
        return output.scores, output.poses, self.model.reconstruct(output.poses, classes), classes


def trace(model: CapsuleModel) -> onnx.ModelProto:
    """Return the model in evaluation mode as an ONNX graph with any batch size, as the exporter writes it."""
    names = [SCORES, POSES] if model.decoder is None else [SCORES, POSES, RECONSTRUCTION, CLASSES]
    # Two images, since the exporter takes a batch of one for a constant.
    example = torch.zeros(2, *model.image_shape)
    was_training = model.training
    model.eval()
    try:
        with quietly(), torch.no_grad():
            program = torch.onnx.export(
                Whole(model).eval(),
                (example,),
                dynamo=True,
                opset_version=OPSET,
                input_names=[IMAGES],
                output_names=names,
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                external_data=False,
                custom_translation_table=translations(),
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        reason = str(error.__cause__ or error).strip().splitlines()[0].rstrip(".")
        raise CapsNetError(f"{model.architecture.name} cannot be exported to ONNX: {reason}.") from error
    finally:
        model.train(was_training)
    assert program is not None
    return program.model_proto


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the exporter's remarks on deprecated parts of torch and on packages that are not used here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
