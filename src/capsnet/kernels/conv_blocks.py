"""Convolution, ReLU and BatchNorm, block after block, while training: ReLU and BatchNorm in one, and in one with the next
block's convolution where several blocks follow each other.

Letters: B batch, C x H x W maps.
"""

from typing import Any

from torch import Tensor, nn

from capsnet.kernels.acceleration import accelerates
from capsnet.kernels.relu_norm import can_fuse, relu_norm
from capsnet.kernels.relu_norm_conv import can_fold, relu_norm_conv
from capsnet.models.efficient_capsnet import ConvBlock


@accelerates(ConvBlock)
def conv_block(block: ConvBlock, maps: Tensor) -> Any:
    """A block on its own: its convolution is PyTorch's."""
    return _finish(block, block.conv(maps)) if _is_known(block) else NotImplemented


@accelerates(nn.Sequential)
def conv_blocks(blocks: nn.Sequential, images: Tensor) -> Any:
    """A sequence of nothing but such blocks."""
    if len(blocks) < 2 or not all(map(_is_known, blocks)):
        return NotImplemented
    block: Any
    block, *others = blocks
    maps = block.conv(images)
    following: Any
    for following in others:
        if can_fold(maps, block.norm, following.conv):
            maps = relu_norm_conv(maps, block.norm, following.conv)
        else:
            maps = following.conv(_finish(block, maps))
        block = following
    return _finish(block, maps)


def _is_known(block: nn.Module) -> bool:
    """Whether there are functions for what this block is made of and does."""
    return (
        type(block) is ConvBlock
        and block.training
        and type(block.conv) is nn.Conv2d
        and type(block.activation) is nn.ReLU
        and type(block.norm) is nn.BatchNorm2d
    )


def _finish(block: Any, maps: Tensor) -> Tensor:
    """All of a block but its convolution."""
    return relu_norm(maps, block.norm) if can_fuse(maps, block.norm) else block.norm(block.activation(maps))
