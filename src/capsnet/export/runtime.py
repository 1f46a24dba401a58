"""An exported file in ONNX Runtime. torch is not needed, nor imported.

Letters: B batch, C x H x W image.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capsnet.errors import CapsNetError
from capsnet.export.metadata import FileCard
from capsnet.machine import cores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

NEEDED = "ONNX files need ONNX Runtime, which is not installed: pip install 'capsnet[onnx]'."


def open_session(file: str | Path | bytes, threads: int | None = None) -> "InferenceSession":
    """Open a session on the CPU; `threads=None` uses all cores."""
    try:
        import onnxruntime
    except ImportError:
        raise CapsNetError(NEEDED) from None
    if not isinstance(file, bytes) and not Path(file).is_file():
        raise CapsNetError(f"There is no file '{file}'.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or cores()
    options.log_severity_level = 3
    content = file if isinstance(file, bytes) else str(file)
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    # ONNX Runtime's exceptions for bad files have no base class of their own.
    except Exception as error:
        name = "The ONNX graph" if isinstance(file, bytes) else f"'{file}'"
        raise CapsNetError(f"{name} is damaged or not an ONNX file: {str(error).splitlines()[0]}.") from error


class OnnxModel:
    """A file that `capsnet export` wrote, ready to run.

    Args:
        file: encoder.onnx, decoder.onnx or model.onnx.
        threads: None uses all cores.
    """

    def __init__(self, file: str | Path, threads: int | None = None) -> None:
        self.session = open_session(file, threads)
        described = FileCard.from_metadata(self.session.get_modelmeta().custom_metadata_map, str(file))
        self.card, self.architecture, self.part = described.card, described.architecture, described.part
        self.image_shape = self.architecture.image_shape
        self.inputs = [item.name for item in self.session.get_inputs()]
        self.outputs = [item.name for item in self.session.get_outputs()]
        self._check_shapes(file)

    def _check_shapes(self, file: str | Path) -> None:
        """Refuse metadata that does not say what the graph computes."""
        image, scores = list(self.image_shape), [self.architecture.num_classes]
        expected = {"images": image, "reconstruction": image, "scores": scores}
        for item in (*self.session.get_inputs(), *self.session.get_outputs()):
            actual = list(item.shape[1:])
            if item.name in expected and actual != expected[item.name]:
                raise CapsNetError(
                    f"'{file}' cannot be used: its {item.name} have shape {actual}, "
                    f"its metadata says {expected[item.name]}."
                )

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.card.names_of(self.architecture.num_classes)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Compute all outputs, by name."""
        return dict(zip(self.outputs, self.session.run(None, dict(inputs)), strict=True))
