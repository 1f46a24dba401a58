"""Testing on several crops of each image: their scores are averaged before the class is chosen (Hinton et al. 2018).

Letters: N crops, B batch, J classes.
"""

from collections.abc import Iterator

from capsnet.data.base import Batch, DataSet, Split
from capsnet.data.patches import patches
from capsnet.models.base import Output


def patch_batches(dataset: DataSet, split: Split, batch_size: int, n: int) -> Iterator[Batch]:
    """Yield batches with the first crop of every image, then the second of every image, and so on."""
    per_batch = max(1, batch_size // n)
    for images, labels in zip(split.images.split(per_batch), split.labels.split(per_batch), strict=True):
        crops = patches(images, dataset.preprocessing, n)
        yield dataset.batch(crops[0], labels)._replace(images=crops.flatten(0, 1))


def average_patches(output: Output, n: int) -> Output:
    """Average the crops' outputs for each image; logits become those of the mean probability."""
    poses, scores = (part.unflatten(0, (n, -1)).mean(dim=0) for part in (output.poses, output.scores))
    logits = scores.clamp_min(1e-12).log() if output.logits is not None else None
    return Output(poses, scores, None, logits)
