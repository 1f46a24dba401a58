"""A run's settings: frozen, without torch, saved as JSON, from which the run can be repeated."""

import dataclasses
import json
import re
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Literal, get_args

from capsnet.errors import CapsNetError


@dataclass(frozen=True)
class Recipe:
    """Everything that training needs besides the model and the data."""

    name: str
    epochs: int
    batch_size: int
    learning_rate: float
    schedule: Literal["exponential", "cosine"] = "exponential"
    decay: float = 1.0
    """exponential: the learning rate is multiplied by this after each epoch"""
    floor: float = 0.0
    """the lowest learning rate"""
    warmup: float = 0.0
    """cosine: the share of all steps in which the learning rate rises from zero"""
    optimizer: Literal["adam", "rmsprop", "muon"] = "adam"
    kernel_rate: float = 10.0
    """muon: the learning rate of the convolutions' kernels, as a multiple of all others'"""
    epsilon: float = 1e-7
    weight_decay: float = 0.0
    average: float | None = None
    """the decay of the moving average of the weights that is evaluated and kept, if any"""
    plain_statistics: int = 0
    """how many training images without augmentation give BatchNorm its statistics before each evaluation; 0: none"""
    augmentation: str | None = None
    """by name; None: the data set's own"""
    late_augmentation: str | None = None
    """replaces it late in training, if given"""
    late_from: float = 0.6
    """the share of all steps after which the late augmentation is used"""
    images: int | None = None
    """how many images are shown in total, instead of whole epochs"""
    minutes: float | None = None
    """a time budget; its number of `images` is measured before the first step and recorded"""
    patience: int | None = None
    """stop after this many epochs without a better validation error"""
    balanced: bool = False
    """show every class equally often"""
    label_smoothing: float = 0.0
    """the share of each target that is spread evenly over all classes; for networks trained with cross-entropy"""
    least_steps: int = 0
    """a small data set gets more epochs, up to this many steps"""
    reconstruction_weight: float = 0.392
    reconstruct_fraction: float = 1.0
    """the share of each batch that is reconstructed, for decoders that dominate the cost"""
    learn_from: float = 1.0
    """learn only from the fewest images that hold this share of a batch's loss; 1: from every image"""
    teacher_share: float = 0.5
    """with a teacher: the share of the classification loss that is to give the teacher's scores; the rest is the labels'"""
    pose_weight: float = 0.0
    """with a teacher: the weight of the squared distance to its class capsules' poses"""
    teacher_apart: bool = False
    """on pairs: the teacher sees each digit alone"""

    def __post_init__(self) -> None:
        _require_numbers(self)
        _require(self.epochs >= 1, f"--epochs is at least 1; got {self.epochs}.")
        _require(self.images is None or self.images >= 1, f"--images is at least 1; got {self.images}.")
        _require(self.minutes is None or self.minutes > 0, f"--minutes is above 0; got {self.minutes}.")
        _require(
            self.patience is None or self.patience >= 1, f"--patience is at least 1; got {self.patience}."
        )
        _require(self.batch_size >= 1, f"--batch-size is at least 1; got {self.batch_size}.")
        _require(
            0 < self.learning_rate < float("inf"), f"--learning-rate is above 0; got {self.learning_rate}."
        )
        _require(
            0 <= self.weight_decay < float("inf"), f"--weight-decay is at least 0; got {self.weight_decay}."
        )
        _require(
            0 <= self.label_smoothing < 1, f"--label-smoothing lies in [0, 1); got {self.label_smoothing}."
        )
        _require(self.schedule in ("exponential", "cosine"), f"There is no schedule '{self.schedule}'.")
        _require(self.kernel_rate > 0, f"kernel_rate is above 0; got {self.kernel_rate}.")
        _require(0 <= self.warmup < 1, f"The warm-up is a share of all steps below 1; got {self.warmup}.")
        _require(self.average is None or 0 < self.average < 1, f"average lies in (0, 1); got {self.average}.")
        _require(self.plain_statistics >= 0, f"plain_statistics is at least 0; got {self.plain_statistics}.")
        _require(
            0 < self.reconstruct_fraction <= 1,
            f"reconstruct_fraction lies in (0, 1]; got {self.reconstruct_fraction}.",
        )
        _require(0 <= self.late_from <= 1, f"late_from lies in [0, 1]; got {self.late_from}.")
        _require(0 <= self.teacher_share <= 1, f"teacher_share lies in [0, 1]; got {self.teacher_share}.")
        _require(0 <= self.pose_weight < float("inf"), f"pose_weight is at least 0; got {self.pose_weight}.")
        _require(0 < self.learn_from <= 1, f"learn_from lies in (0, 1]; got {self.learn_from}.")


@dataclass(frozen=True)
class Config:
    """One run: what is trained on what, how, and from which seed."""

    dataset: str
    model: str
    recipe: Recipe
    seed: int = 0
    model_options: dict[str, Any] = field(default_factory=dict)
    dataset_options: dict[str, Any] = field(default_factory=dict)
    validation: int | None = None
    """images held out of the training set to select on; None means min(5,000, 10 %)"""
    hold_out: str = "images"
    """images are held out one by one, stretches in runs of the stored order, others in whole groups that the data set names"""
    fold: str | None = None
    """such as 2/5: hold out the second of five fixed parts, whatever `validation` and the seed are"""
    limit: int | None = None
    """training images kept after the seeded shuffle"""
    init: str | None = None
    """weights to start from; what fits is kept"""
    init_parts: list[str] = field(default_factory=list)
    """the parts of these weights to start from, when not all; the weights may then be of another model"""
    teacher: str | None = None
    """weights of a network to imitate, beside the labels"""
    freeze: list[str] = field(default_factory=list)
    """parts of the network that don't learn: names of modules or tensors, or patterns of them"""
    device: str = "auto"
    threads: int | None = None
    precision: Literal["float32", "bf16"] = "float32"
    compile: bool = False
    test: bool = True
    """False leaves the test set unread: for runs that choose settings"""
    watch_test: bool = False
    """test after every epoch too, as the paper's program does; nothing of the run's own result is chosen by it"""

    def __post_init__(self) -> None:
        _require_numbers(self)
        _require(0 <= self.seed < 2**63, f"--seed is a whole number from 0; got {self.seed}.")
        _require(self.limit is None or self.limit >= 1, f"--limit is at least 1; got {self.limit}.")
        _require(
            self.validation is None or self.validation >= 0,
            f"--validation is at least 0; got {self.validation}.",
        )
        if self.fold is not None:
            parse_fold(self.fold)
        _require(self.threads is None or self.threads >= 1, f"--threads is at least 1; got {self.threads}.")
        _require(
            self.test or not self.watch_test, "--watch-test reads the test set, --no-test leaves it unread."
        )
        _require(
            not self.init_parts or self.init is not None, "--init-parts are parts of the weights of --init."
        )
        _require(self.precision in ("float32", "bf16"), f"There is no precision '{self.precision}'.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Config":
        """The reverse of `to_dict`; what does not fit is an error that names it."""
        try:
            return cls(**{**values, "recipe": Recipe(**values["recipe"])})
        except (TypeError, KeyError) as error:
            raise CapsNetError(f"This is not a run's configuration: {error}.") from None

    def differences(self, other: "Config") -> list[str]:
        """The settings that make another training of it; the device and its threads do not."""
        mine, theirs = self.to_dict(), other.to_dict()
        flat_mine = {**mine, **mine.pop("recipe"), "recipe": self.recipe.name}
        flat_theirs = {**theirs, **theirs.pop("recipe"), "recipe": other.recipe.name}
        free = {"device", "threads", "name"}
        return [k for k in flat_mine if k not in free and flat_mine[k] != flat_theirs[k]]


def trial_of(config: dict[str, Any]) -> str:
    """Return what all folds of a trial have in common: a run's settings without its fold, its machine's, and the fold in the
    names of the weights that it learns from."""
    shared = {k: v for k, v in config.items() if k not in ("fold", "device", "threads")}
    return json.dumps(
        {k: without_fold(v) if k in FROM_WEIGHTS else v for k, v in shared.items()}, sort_keys=True
    )


def without_fold(name: Any) -> Any:
    """Return a run's name or path without the fold in it: fast-fold2-s0 is fast-s0."""
    return re.sub(r"[-_]?fold\d+(of\d+)?", "", name) if isinstance(name, str) else name


FROM_WEIGHTS = ("teacher", "init")


def parse_fold(text: str) -> tuple[int, int]:
    """Read "2/5", the second of five parts, as (2, 5)."""
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and int(parts) >= 2 and 1 <= int(part) <= int(parts)):
        raise CapsNetError(f"A fold is PART/PARTS, such as 2/5 for the second of five parts; got '{text}'.")
    return int(part), int(parts)


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise CapsNetError(sentence)


def _require_numbers(settings: Recipe | Config) -> None:
    """Refuse texts and fractions where numbers and whole numbers belong: from Python or an edited file any may come."""
    for setting in dataclasses.fields(settings):
        kinds = {setting.type, *get_args(setting.type)}
        value = getattr(settings, setting.name)
        if not kinds & {int, float} or (value is None and type(None) in kinds):
            continue
        number, words = (Real, "a number") if float in kinds else (Integral, "a whole number")
        fits = isinstance(value, number) and not isinstance(value, bool)
        _require(fits, f"The setting {setting.name} is {words}, not {value!r}.")
