"""Every request and answer, defined once: `reading` validates by these types, `app` answers with them, and `openapi` describes
them. Nothing here needs torch.

Letters: N images, C x H x W image, J classes, D pose size.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from capsnet.serve.limits import Limits

INCLUDES = ("poses", "coupling", "reconstructions", "input")
LARGEST_POSE = 1e6
MOST_SAMPLES = 40

Pixels = Annotated[
    list[list[list[Annotated[int, Meta(ge=0, le=255)]]]], Meta(description="C x H x W numbers of 0 to 255.")
]
ModelChoice = Annotated[
    Literal["main", "pairs"],
    Meta(description="Which of the loaded models: pairs is the one for two overlapping digits."),
]


class Served(Protocol):
    """What the messages depend on: the sizes and the classes of the model that is served."""

    num_classes: int
    class_names: tuple[str, ...]
    pose_shape: tuple[int, ...]
    has_capsules: bool

    @property
    def picture_shape(self) -> tuple[int, int, int]: ...


class ReconstructQuery(Struct):
    model: ModelChoice = "main"


class SamplesQuery(Struct):
    count: Annotated[int, Meta(ge=1, le=MOST_SAMPLES, description="How many.")] = 10
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Which.")] = 0


class Drawing(Struct):
    class_: str = field(name="class")
    image: Pixels


class Prediction(Struct):
    class_: str = field(name="class")
    score: float
    scores: dict[str, float]
    likely: Annotated[bool, Meta(description="False when the picture is probably none of the classes.")]
    reason: Annotated[
        str | None, Meta(description="Why it is probably none of them; null when it is likely.")
    ]
    classes: list[str] | UnsetType = UNSET
    poses: list[Any] | UnsetType | None = UNSET
    coupling: list[Any] | UnsetType | None = UNSET
    reconstructions: list[Drawing] | UnsetType = UNSET
    input: Pixels | UnsetType = UNSET


class Predictions(Struct):
    predictions: list[Prediction]


class Pictures(Struct):
    images: list[Pixels]


class Samples(Struct):
    samples: list[Drawing]


class ModelFacts(Struct, forbid_unknown_fields=True):
    """A model, as `/v1/model` describes it."""

    name: str
    image_shape: list[int]
    picture_shape: list[int]
    class_names: list[str]
    classes_per_image: Annotated[int, Meta(description="2 for weights of overlapping digits.")]
    pose_shape: list[int]
    has_capsules: bool
    input_capsules: int | None
    has_decoder: bool
    encoder_parameters: Annotated[int | None, Meta(description="null for exported files.")]
    preprocessing: dict[str, Any]
    dataset: str | None
    score: dict[str, Any]


class Description(ModelFacts, forbid_unknown_fields=True):
    """The main model, the other one, and what the server takes."""

    pairs: ModelFacts | None
    has_samples: bool
    limits: Limits
    version: str


class Health(Struct):
    status: Literal["ok"] = "ok"


class Problem(Struct):
    error: Annotated[str, Meta(description="What is wrong, in one sentence.")]


class Messages:
    """The requests whose sizes depend on the model."""

    def __init__(self, model: Served, limits: Limits) -> None:
        channels, height, width = model.picture_shape
        pixel = Annotated[float, Meta(ge=0, le=255)]
        number = Annotated[float, Meta(ge=-LARGEST_POSE, le=LARGEST_POSE)]
        blank = [[0] * width] * height
        self.images: list[type[Struct]] = [
            closed(
                "Images", images=batch(nested(pixel, (channels, height, width)), limits, [blank] * channels)
            )
        ]
        if channels == 1:
            self.images.insert(
                0, closed("GreyImages", images=batch(nested(pixel, (height, width)), limits, blank))
            )
        self.files = closed(
            "Files", file=batch(Annotated[str, Meta(extra_json_schema={"format": "binary"})], limits)
        )
        names: Any = Literal[model.class_names]
        class_ = Annotated[int, Meta(ge=0, le=model.num_classes - 1)] | names
        one_each: Any = Annotated[batch(class_, limits), Meta(description="One class for each pose.")]
        every = batch(nested(number, model.pose_shape), limits)
        whole = msgspec.defstruct(
            "Poses", [("poses", every), ("classes", one_each | UnsetType, UNSET)], forbid_unknown_fields=True
        )
        whole.__doc__ = "Poses of every class; without classes the longest capsule is drawn."
        self.poses: list[type[Struct]] = [whole]
        if model.has_capsules:
            size = model.pose_shape[1:]
            own = batch(nested(number, size), limits, nested_zeros(size))
            chosen = closed("ClassPoses", poses=own, classes=one_each)
            chosen.__doc__ = "Of each image only the pose of the class that is drawn."
            self.poses.insert(0, chosen)
        include = Annotated[
            list[Literal[INCLUDES]],  # type: ignore[valid-type]
            Meta(description="What to give besides the scores."),
        ]
        top = Annotated[
            int,
            Meta(
                ge=1,
                le=model.num_classes,
                description="How many of the best classes to name and to reconstruct.",
            ),
        ]
        self.predict_query = msgspec.defstruct(
            "PredictQuery",
            [
                ("include", include, field(default_factory=list)),
                ("top", top, 1),
                ("model", ModelChoice, "main"),
            ],
        )


def closed(name: str, **fields: Any) -> type[Struct]:
    return msgspec.defstruct(name, list(fields.items()), forbid_unknown_fields=True)


def nested(item: Any, shape: Sequence[int]) -> Any:
    """Lists in lists, of just these lengths."""
    for length in reversed(shape):
        item = Annotated[list[item], Meta(min_length=length, max_length=length)]
    return item


def nested_zeros(shape: Sequence[int]) -> Any:
    return [nested_zeros(shape[1:])] * shape[0] if shape else 0


def batch(item: Any, limits: Limits, example: Any = None) -> Any:
    """At least one. Too many are told apart from what is wrong otherwise (413), so `reading` counts them."""
    examples = None if example is None else [[example]]
    return Annotated[
        list[item], Meta(min_length=1, extra_json_schema={"maxItems": limits.images}, examples=examples)
    ]
