"""Detection for int8 files. Quantising shifts what the parts are, so the detector is fitted to the files themselves.

Letters: N images, C x H x W image.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from capsnet.detection.detector import Detector, fit_detector
from capsnet.detection.measures import Evidence
from capsnet.export.names import CLASSES, IMAGES, PARTS, POSES, RECONSTRUCTION, SCORES
from capsnet.export.runtime import open_session

BATCH = 100


def fit_to_files(
    files: Mapping[str, bytes], images: Float[np.ndarray, "n c h w"], calibrated_on: str, false_alarm: float
) -> Detector:
    """Fit a detector to what encoder and decoder make of images of the classes.

    Args:
        files: the content of "encoder" and, where there is one, "decoder".
    """
    encoder = open_session(files["encoder"])
    decoder = open_session(files["decoder"]) if "decoder" in files else None
    names = [item.name for item in encoder.get_outputs()]
    drawn: list[np.ndarray] = []
    scores, parts = [], []
    for start in range(0, len(images), BATCH):
        some = images[start : start + BATCH]
        computed = dict(zip(names, encoder.run(None, {IMAGES: some}), strict=True))
        scores.append(computed[SCORES])
        if PARTS in computed:
            parts.append(computed[PARTS].reshape(len(some), -1))
        if decoder is not None:
            known = {POSES: computed[POSES], CLASSES: computed[SCORES].argmax(axis=1)}
            inputs = {item.name: known[item.name] for item in decoder.get_inputs()}
            drawn += decoder.run([RECONSTRUCTION], inputs)
    evidence = Evidence(
        np.concatenate(scores),
        images if drawn else None,
        np.concatenate(drawn) if drawn else None,
        np.concatenate(parts) if parts else None,
    )
    return fit_detector(evidence, calibrated_on, false_alarm=false_alarm)
