"""Learning from the images that still have something to teach.

Late in training most images meet both margins, or nearly, and a small part of a batch holds nearly all of its loss. A forward
pass finds that part, and only it is learned from, forwards and backwards. As the loss of the others is next to nothing, so
is what their gradients would have added, and a step costs much less. Early on, when the loss is spread evenly, nearly all
images are kept.

Letters: B batch, J classes.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from capsnet.data.base import Batch
from capsnet.functional.losses import margin_losses
from capsnet.models.base import CapsuleModel

MULTIPLE = 8  # of images: convolutions are prepared anew for each size of batch
FEWEST = 16  # for BatchNorm's sake


@torch.no_grad()
def hardest(model: CapsuleModel, batch: Batch, share: float) -> Batch:
    """The fewest images of the batch that hold `share` of its margin loss, as the model stands, in evaluation mode."""
    model.eval()
    losses = margin_losses(model(batch.images).scores.float(), batch.targets)
    model.train()
    kept = fewest_holding(losses, share)
    return Batch(*(field[kept] for field in batch))


def fewest_holding(losses: Float[Tensor, "b"], share: float) -> Int[Tensor, "n"]:
    """Where the largest losses are that together hold `share` of all, in their own order; a few more, to a round number."""
    held, order = losses.sort(descending=True, stable=True)
    count = int((held.cumsum(0) < share * held.sum()).sum()) + 1
    count = max(-(-count // MULTIPLE) * MULTIPLE, FEWEST)
    return order[:count].sort().values
