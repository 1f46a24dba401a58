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
from capsnet.export.names import CLASSES, COUPLING, IMAGES, PARTS, POSES, RECONSTRUCTION, SCORES
from capsnet.models.base import CapsuleModel

OPSET = 20


class Whole(nn.Module):
    """What a file computes. The reconstructed class, the best-scored one, is an output so that the graph can be cut there."""

    def __init__(self, model: CapsuleModel, coupling: bool) -> None:
        super().__init__()
        self.model = model
        self.coupling = coupling

    def forward(self, images: Float[Tensor, "b c h w"]) -> tuple[Tensor, ...]:
        return tuple(self.outputs(images).values())

    def outputs(self, images: Float[Tensor, "b c h w"]) -> dict[str, Tensor]:
        """Return everything that there is, by name."""
        output = self.model(images, coupling=self.coupling)
        outputs = {SCORES: output.scores, POSES: output.poses}
        if self.model.decoder is not None:
            classes = output.scores.argmax(dim=1)
            outputs[RECONSTRUCTION] = self.model.reconstruct(output.poses, classes)
            outputs[CLASSES] = classes
        if output.coupling is not None:
            outputs[COUPLING] = output.coupling
        if self.model.card.detection and output.parts is not None:
            outputs[PARTS] = output.parts
        return outputs


def trace(model: CapsuleModel, *, coupling: bool = False) -> onnx.ModelProto:
    """Return the model in evaluation mode as an ONNX graph with any batch size, as the exporter writes it.

    Args:
        coupling: whether coupling is an output too, where a model has it.
    """
    # Two images, since the exporter takes a batch of one for a constant.
    example = torch.zeros(2, *model.image_shape)
    was_training = model.training
    model.eval()
    try:
        with quietly(), torch.no_grad():
            whole = Whole(model, coupling).eval()
            program = torch.onnx.export(
                whole,
                (example,),
                dynamo=True,
                opset_version=OPSET,
                input_names=[IMAGES],
                output_names=list(whole.outputs(example)),
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
