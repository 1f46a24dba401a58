"""Parts of a network that training leaves as they are (`--freeze`).

What is frozen is said the way PyTorch says it: its parameters need no gradient, and its norms with running statistics are in
evaluation mode, so that they neither use nor learn the statistics of a batch. The optimiser, the averages and distributed
training go by that alone, whoever has frozen it.
"""

from collections.abc import Collection, Sequence

from torch import nn

from capsnet.errors import CapsNetError
from capsnet.train.averaging import RunningNorm
from capsnet.train.initial import cover, is_named


def freeze(model: nn.Module, patterns: Sequence[str], new: Collection[str] = ()) -> list[str]:
    """Freeze all parameters and statistics that a pattern names, but for new ones, and return what is frozen.

    Args:
        patterns: names of modules or tensors, such as encoder.blocks, in which * stands for anything.
        new: tensors whose values are not worth keeping.
    """
    names = list(model.state_dict())
    chosen: set[str] = set()
    for pattern in patterns:
        found = {name for name in names if is_named(name, pattern)}
        if not found:
            parts = [name for name, _ in model.named_modules() if name and name.count(".") <= 1]
            raise CapsNetError(f"--freeze: the model has no part '{pattern}'; it has {', '.join(parts)}.")
        chosen |= found
    frozen = [name for name in names if name in chosen and name not in new]
    if not frozen and chosen:
        raise CapsNetError(
            f"--freeze: all of {', '.join(patterns)} is new, so it must learn; leave out --freeze."
        )
    for name, parameter in model.named_parameters():
        if name in frozen:
            parameter.requires_grad_(False)
    for name, module in model.named_modules():
        if isinstance(module, RunningNorm) and f"{name}.running_mean" in frozen:
            module.train(False)
    return cover(frozen, names)
