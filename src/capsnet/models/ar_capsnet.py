"""AR-CapsNet (Choi et al. 2019): convolutional capsules that share places by learned attention, without iterations.

    2 x [conv 3x3 64, BatchNorm, ReLU]                                                             37,824 parameters
    primary: conv 3x3/2 to 8 types x 16, ReLU, a 16x16 map for each type, tanh: 14x14              73,856 + 2,176
    ConvCaps 3x3/2: votes by a convolution for each input type, attention routing: 8 types x 32, 7x7      321,792
    ConvCaps over the whole map: 10 classes x 32                                                        4,047,680

Poses go through tanh, so a length is divided by sqrt(32) to be a score. Dropout, on the elements of a capsule layer's input
while training, is the paper's 0.5. Its decoder is dense, 512 and 512 wide.

Letters: B batch, I input types, K input pose size, J output types, D pose size, H x W positions.
"""

from jaxtyping import Float
from torch import Tensor, nn

from capsnet.functional.routing.registry import Share
from capsnet.layers.decoders import DenseDecoder
from capsnet.layers.initialisation import glorot_uniform_
from capsnet.layers.routing import Routing
from capsnet.models.base import CapsuleModel, Output, build_decoder
from capsnet.registry import ImageShape, register_model

CHANNELS = 64
TYPES = 8
PRIMARY_SIZE = 16
SIZE = 32


class AttentionConvCapsules(nn.Module):
    """At each position, every input type votes by a convolution of its own, and attention routing weighs the votes.

    Args:
        in_types, in_size: I and K, the layer below.
        out_types, out_size: J and D, this layer.
        kernel, stride, padding: of the votes' convolution.
        dropout: of the input's elements, while training.

    Shapes: (B, I*K, H, W) -> poses (B, J*D, H2, W2), activations (B, J, H2, W2), coupling (B, J, I, H2, W2).
    """

    def __init__(
        self,
        in_types: int,
        in_size: int,
        out_types: int,
        out_size: int,
        *,
        kernel: tuple[int, int],
        stride: int = 1,
        padding: int = 0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.shape = (in_types, out_types, out_size)
        self.dropout = nn.Dropout(dropout)
        self.votes = nn.Conv2d(
            in_types * in_size, in_types * out_types * out_size, kernel, stride, padding, groups=in_types
        )
        glorot_uniform_(self.votes)
        self.routing = Routing("attention", in_types, out_types, out_size)

    def forward(
        self, capsules: Float[Tensor, "b ik h w"]
    ) -> tuple[Float[Tensor, "b jd h2 w2"], Float[Tensor, "b j h2 w2"], Float[Tensor, "b j i h2 w2"]]:
        votes = self.votes(self.dropout(capsules)).unflatten(1, self.shape)
        b, _, _, _, height, width = votes.shape
        everywhere = votes.permute(0, 4, 5, 2, 1, 3).flatten(0, 2)  # each position routes by itself
        found = (t.unflatten(0, (b, height, width)) for t in self.routing(everywhere))
        poses, activations, coupling = (t.movedim((1, 2), (-2, -1)) for t in found)
        return poses.flatten(1, 2), activations, coupling


class TypeMaps(nn.Module):
    """A linear map for each capsule type, shared by all positions, then tanh: a 1x1 convolution in groups.

    Shapes: (B, I*K, H, W) -> the same.
    """

    def __init__(self, types: int, size: int) -> None:
        super().__init__()
        self.maps = nn.Conv2d(types * size, types * size, 1, groups=types)
        glorot_uniform_(self.maps)

    def forward(self, capsules: Float[Tensor, "b ik h w"]) -> Float[Tensor, "b ik h w"]:
        return self.maps(capsules).tanh()


class AREncoder(nn.Module):
    """Image to class capsules.

    Shapes: (B, C, H, W) -> poses (B, J, D), scores (B, J), coupling (B, J, I).
    """

    def __init__(self, image_shape: ImageShape, num_classes: int, *, dropout: float) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(c, CHANNELS, 3, padding=1),
                    nn.BatchNorm2d(CHANNELS, eps=1e-3, momentum=0.01),
                    nn.ReLU(),
                )
                for c in (image_shape[0], CHANNELS)
            )
        )
        self.primary = nn.Conv2d(CHANNELS, TYPES * PRIMARY_SIZE, 3, stride=2, padding=1)
        self.types = TypeMaps(TYPES, PRIMARY_SIZE)
        self.conv_capsules = AttentionConvCapsules(
            TYPES, PRIMARY_SIZE, TYPES, SIZE, kernel=(3, 3), stride=2, padding=1, dropout=dropout
        )
        height, width = (-(-side // 4) for side in image_shape[1:])
        self.capsules = AttentionConvCapsules(
            TYPES, SIZE, num_classes, SIZE, kernel=(height, width), dropout=dropout
        )
        for layer in (self.primary, *self.blocks.modules()):
            if isinstance(layer, nn.Conv2d):
                glorot_uniform_(layer)

    def forward(self, images: Float[Tensor, "b c h w"], *, coupling: bool = False) -> Output:
        primary = self.types(self.primary(self.blocks(images)).relu())
        middle, _, _ = self.conv_capsules(primary)
        poses, scores, coupled = self.capsules(middle)
        poses = poses.flatten(1).unflatten(1, (-1, SIZE))
        return Output(poses, scores.flatten(1), coupled.flatten(2) if coupling else None)


@register_model(image_shape=(1, 28, 28), num_classes=10)
def ar_capsnet(
    image_shape: ImageShape, num_classes: int, *, decoder: bool | str = True, dropout: Share = 0.5
) -> CapsuleModel:
    """AR-CapsNet, for images of any size; the last kernel covers a quarter of each side."""
    encoder = AREncoder(image_shape, num_classes, dropout=dropout)
    features = num_classes * SIZE
    if decoder is True:
        return CapsuleModel(encoder, DenseDecoder(features, image_shape, hidden=(512, 512)), image_shape)
    return CapsuleModel(encoder, build_decoder(decoder, features, image_shape), image_shape)
