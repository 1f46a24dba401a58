"""Efficient-CapsNet (Mazzia, Salvetti, Chiaberge 2021): four convolutions, depthwise primary capsules, self-attention routing.

Eq. 1 is `ConvBlock`; the blocks normalise last (convolution, activation, normalisation). The paper says stride 1
everywhere; its program, its figures and its parameter counts say otherwise, and so does this file:

    MNIST       1x28x28: 5x5/1 32, 3x3/1 64, 3x3/1 64, 3x3/2 128 -> 9x9, depthwise 9x9      161,824 parameters
    smallNORB   2x48x48: 7x7/2 32, 3x3/1 64, 3x3/1 64, 3x3/2 128 -> 8x8, depthwise 8x8      151,664
    MultiMNIST  1x36x36: 5x5/1 32, 3x3/1 64, 3x3/2 64, 3x3/2 128 -> 6x6, depthwise 5x5/2    154,656

Letters: B batch, I input capsules, J classes, D pose size, C x H x W image.
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError
from capsnet.layers.capsule_head import CapsuleHead, route_through
from capsnet.layers.initialisation import he_normal_
from capsnet.layers.ink import EvenInk
from capsnet.layers.mixed_norm import MixedNorm
from capsnet.models.backbones import BackboneEncoder
from capsnet.models.base import CapsuleModel, Output, build_decoder
from capsnet.registry import ImageShape, register_model

CHANNELS = (32, 64, 64, 128)
PRIMARY_SIZE = 8
CLASS_SIZE = 16
STRIDES = ((1, 1, 1, 2), (1, 1, 2, 2), (1, 2, 2, 2), (2, 2, 2, 2), (4, 2, 2, 2))
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "leaky_relu": lambda: nn.LeakyReLU(0.3)}


def normalisation(kind: str, channels: int) -> nn.Module:
    """Batch or instance normalisation with the authors' constants and initial values, or a learned mixture of both."""
    if kind == "batch":
        return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)
    if kind == "instance":
        norm = nn.InstanceNorm2d(channels, eps=1e-3, affine=True)
        nn.init.uniform_(norm.weight, -0.05, 0.05)
        nn.init.uniform_(norm.bias, -0.05, 0.05)
        return norm
    if kind == "mixed":
        return MixedNorm(channels, eps=1e-3, momentum=0.01)
    raise CapsNetError(f"norm is 'batch', 'instance' or 'mixed', not '{kind}'.")


class ConvBlock(nn.Module):
    """Eq. 1, then normalisation."""

    def __init__(
        self, channels: tuple[int, int], kernel: int, stride: tuple[int, int], activation: str, norm: str
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise CapsNetError(f"activation is 'relu' or 'leaky_relu', not '{activation}'.")
        self.conv = nn.Conv2d(*channels, kernel, stride)
        self.activation = ACTIVATIONS[activation]()
        self.norm = normalisation(norm, channels[1])
        he_normal_(self.conv)

    def forward(self, maps: Float[Tensor, "b c h w"]) -> Float[Tensor, "b f h2 w2"]:
        return self.norm(self.activation(self.conv(maps)))


def last_map(size: int, kernels: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Pixels left on one axis after the blocks; not positive when the image is too small for them."""
    for kernel, stride in zip(kernels, strides, strict=True):
        size = (size - kernel) // stride + 1
    return size


def fitting_strides(size: int, kernels: tuple[int, ...]) -> tuple[int, ...]:
    """The first strides that leave a last map of 5 to 12 pixels on an axis of `size` pixels."""
    for strides in STRIDES:
        if 5 <= last_map(size, kernels, strides) <= 12:
            return strides
    raise CapsNetError(f"Efficient-CapsNet takes images of 19 to 444 pixels a side; got {size}.")


def check_channels(channels: tuple[int, ...]) -> tuple[int, ...]:
    """Refuse anything but one number of channels for each of the four blocks."""
    if len(channels) != 4 or not all(isinstance(n, int) and n >= 1 for n in channels):
        raise CapsNetError(f"channels are four whole numbers from 1 up, not {channels!r}.")
    return channels


class EfficientEncoder(nn.Module):
    """Image to class capsules.

    Args:
        capsule_layers: (capsules, pose size) of each layer between primary and class capsules.
        channels: of the blocks' maps.
        primary_size, class_size: elements of a primary and of a class capsule's pose.
        deskew, ink_width: bring the ink of each image into a standard form first (`capsnet.layers.EvenInk`).
        strides: of the blocks, the same on both axes; chosen by the image's size when None.
        primary_kernel, primary_stride: of the depthwise convolution; the whole map when None.
        routing_options: for DenseCapsules: `routing`, `scale`, `squash` and the routing's own.
    """

    def __init__(
        self,
        image_shape: ImageShape,
        num_classes: int,
        *,
        channels: tuple[int, ...] = CHANNELS,
        primary_size: int = PRIMARY_SIZE,
        class_size: int = CLASS_SIZE,
        deskew: bool = False,
        ink_width: int | None = None,
        first_kernel: int = 5,
        strides: tuple[int, ...] | None = None,
        primary_kernel: int | None = None,
        primary_stride: int = 1,
        activation: str = "relu",
        norm: str = "batch",
        capsule_layers: tuple[tuple[int, int], ...] = (),
        **routing_options: Any,
    ) -> None:
        super().__init__()
        kernels = (first_kernel, 3, 3, 3)
        axes = [strides or fitting_strides(size, kernels) for size in image_shape[1:]]
        maps = (image_shape[0], *check_channels(channels))
        self.even = EvenInk(deskew=deskew, width=ink_width) if deskew or ink_width else None
        self.blocks = nn.Sequential(
            *(
                ConvBlock((maps[n], maps[n + 1]), kernels[n], (axes[0][n], axes[1][n]), activation, norm)
                for n in range(4)
            )
        )
        height, width = (last_map(n, kernels, s) for n, s in zip(image_shape[1:], axes, strict=True))
        kernel = (primary_kernel, primary_kernel) if primary_kernel else (height, width)
        if min(height - kernel[0], width - kernel[1], height - 1, width - 1) < 0:
            sides = "x".join(map(str, image_shape[1:]))
            raise CapsNetError(f"An image of {sides} pixels is too small for this network's convolutions.")
        head = CapsuleHead(
            maps[-1],
            (height, width),
            num_classes,
            primary_size=primary_size,
            class_size=class_size,
            kernel=primary_kernel,
            stride=primary_stride,
            capsule_layers=capsule_layers,
            **routing_options,
        )
        # By these names published weights know them.
        self.primary, self.capsules = head.primary, head.capsules

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        if self.even is not None:
            images = self.even(images)
        parts = self.primary(self.blocks(images))
        poses, activations, coupled = route_through(self.capsules, parts)
        return Output(poses, activations, coupled if coupling else None, parts=parts)


@register_model(image_shape=(1, 28, 28), num_classes=10)
def efficient_capsnet(
    image_shape: ImageShape,
    num_classes: int,
    *,
    decoder: bool | str = True,
    backbone: str | nn.Module | None = None,
    channels: tuple[int, ...] = CHANNELS,
    primary_size: int = PRIMARY_SIZE,
    class_size: int = CLASS_SIZE,
    deskew: bool = False,
    ink_width: int | None = None,
    activation: str = "relu",
    norm: str = "batch",
    capsule_layers: tuple[tuple[int, int], ...] = (),
    routing: str = "self_attention",
    **routing_options: Any,
) -> CapsuleModel:
    """The network of the MNIST experiments, for any image of 19 to 444 pixels a side; or its capsules on another `backbone`."""
    encoder: nn.Module
    if backbone is None:
        encoder = EfficientEncoder(
            image_shape,
            num_classes,
            channels=channels,
            primary_size=primary_size,
            class_size=class_size,
            deskew=deskew,
            ink_width=ink_width,
            activation=activation,
            norm=norm,
            capsule_layers=capsule_layers,
            routing=routing,
            **routing_options,
        )
    elif (activation, norm, channels, deskew, ink_width) != ("relu", "batch", CHANNELS, False, None):
        raise CapsNetError(
            "activation, norm, channels, deskew and ink_width are options of the paper's convolutions; a backbone has its own."
        )
    else:
        encoder = BackboneEncoder(
            backbone,
            image_shape,
            num_classes,
            primary_size=primary_size,
            class_size=class_size,
            capsule_layers=capsule_layers,
            routing=routing,
            **routing_options,
        )
    built = build_decoder(decoder, num_classes * class_size, image_shape)
    return CapsuleModel(encoder, built, image_shape)


@register_model(image_shape=(2, 48, 48), num_classes=5)
def efficient_capsnet_smallnorb(
    image_shape: ImageShape,
    num_classes: int,
    *,
    decoder: bool | str = True,
    activation: str = "leaky_relu",
    norm: str = "instance",
    primary_kernel: int | None = None,
    primary_stride: int = 1,
    routing: str = "self_attention",
    **routing_options: Any,
) -> CapsuleModel:
    """The network of the smallNORB experiments: a wider first kernel, LeakyReLU and instance normalisation.

    `primary_kernel` and `primary_stride` make several positional primary capsules of each kind in place of global ones.
    """
    encoder = EfficientEncoder(
        image_shape,
        num_classes,
        first_kernel=7,
        strides=(2, 1, 1, 2),
        primary_kernel=primary_kernel,
        primary_stride=primary_stride,
        activation=activation,
        norm=norm,
        routing=routing,
        **routing_options,
    )
    built = build_decoder(decoder, num_classes * CLASS_SIZE, image_shape, default="conv")
    return CapsuleModel(encoder, built, image_shape)


@register_model(image_shape=(1, 36, 36), num_classes=10)
def efficient_capsnet_multimnist(
    image_shape: ImageShape,
    num_classes: int,
    *,
    decoder: bool | str = True,
    channels: tuple[int, ...] = CHANNELS,
    primary_size: int = PRIMARY_SIZE,
    class_size: int = CLASS_SIZE,
    routing: str = "self_attention",
    **routing_options: Any,
) -> CapsuleModel:
    """The network of the MultiMNIST experiments; its depthwise kernel leaves the last row and column unseen."""
    encoder = EfficientEncoder(
        image_shape,
        num_classes,
        channels=channels,
        primary_size=primary_size,
        class_size=class_size,
        strides=(1, 1, 2, 2),
        primary_kernel=5,
        primary_stride=2,
        routing=routing,
        **routing_options,
    )
    built = build_decoder(decoder, num_classes * class_size, image_shape)
    return CapsuleModel(encoder, built, image_shape)
