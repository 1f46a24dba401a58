"""The three files: the whole graph, and the encoder and the decoder cut out of it.

    model.onnx      images (B, C, H, W) -> scores (B, J), poses (B, J, D), reconstruction (B, C, H, W) of the best class
    encoder.onnx    images -> scores, poses; where they were traced, coupling (B, J, I), and parts (B, I, K), primary capsules
    decoder.onnx    poses, classes (B,) -> reconstruction; without classes where a model decodes unmasked features

Letters: B batch, C x H x W image, J classes, D pose size, I capsules of the layer below.
"""

import onnx
from onnx import utils

from capsnet.export.graph import Graph, drop_unused_constants
from capsnet.export.names import CLASSES, COUPLING, IMAGES, PARTS, POSES, RECONSTRUCTION, SCORES


def cut(whole: onnx.ModelProto) -> dict[str, onnx.ModelProto]:
    """Return the files' graphs by name; a model without a decoder has none."""
    extractor = utils.Extractor(whole)
    outputs = {output.name for output in whole.graph.output}
    parts = {
        "encoder": extractor.extract_model(
            [IMAGES], [SCORES, POSES, *(name for name in (COUPLING, PARTS) if name in outputs)]
        )
    }
    model = onnx.ModelProto.FromString(whole.SerializeToString())
    if RECONSTRUCTION in outputs:
        by_class = reaches(whole, CLASSES, RECONSTRUCTION)
        inputs = [POSES, CLASSES] if by_class else [POSES]
        parts["decoder"] = extractor.extract_model(inputs, [RECONSTRUCTION])
        for output in list(model.graph.output):
            if output.name in (CLASSES, PARTS):
                model.graph.output.remove(output)
        if not by_class:
            model = extractor.extract_model([IMAGES], [SCORES, POSES, RECONSTRUCTION])
    parts["model"] = model
    for part in parts.values():
        drop_unused_constants(part)
    return parts


def reaches(model: onnx.ModelProto, start: str, end: str) -> bool:
    """Tell whether the tensor `end` is computed from `start`."""
    graph = Graph(model)
    waiting, seen = [end], set()
    while waiting:
        name = waiting.pop()
        if name == start:
            return True
        if name in graph.makers and name not in seen:
            seen.add(name)
            waiting.extend(graph.makers[name].input)
    return False
