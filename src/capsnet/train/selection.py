"""Learning from the images that still contribute to the loss.

Late in training most images nearly meet both margins, and a small part of a batch holds almost all of its loss. A forward
pass finds that part, and only it is trained on. The loss of the other images is close to zero, and so are their gradients;
a step costs much less without them. Early on, when the loss is spread evenly, nearly all images are kept.

Letters: B batch, J classes.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from capsnet.data.base import Batch
from capsnet.evaluate.mode import evaluating
from capsnet.functional.losses import margin_losses
from capsnet.models.base import CapsuleModel

MULTIPLE = 8  # of images: convolutions are prepared anew for each size of batch
FEWEST = 16  # for BatchNorm's sake


@torch.no_grad()
def hardest(model: CapsuleModel, batch: Batch, share: float) -> Batch:
    """Return the fewest images of the batch that hold `share` of its current margin loss, computed in evaluation mode."""
    with evaluating(model):
        losses = margin_losses(model(batch.images).scores.float(), batch.targets)
    kept = fewest_holding(losses, share)
    return Batch(*(field[kept] for field in batch))


def fewest_holding(losses: Float[Tensor, "b"], share: float) -> Int[Tensor, "n"]:
    """Return the indices of the largest losses that together hold `share` of all, in order; a few more, for a round number."""
    held, order = losses.sort(descending=True, stable=True)
    count = int((held.cumsum(0) < share * held.sum()).sum()) + 1
    count = max(-(-count // MULTIPLE) * MULTIPLE, FEWEST)
    return order[:count].sort().values
