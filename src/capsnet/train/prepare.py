"""From a configuration to what the loop needs: a device, splits of the data, a model, an optimiser."""

import contextlib
import ctypes
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from capsnet.config import Config, Recipe
from capsnet.data.base import DataSet, Split
from capsnet.data.hold_out import hold_out
from capsnet.errors import CapsNetError
from capsnet.models.base import CapsuleModel, SoftmaxModel
from capsnet.saving import as_tuples
from capsnet.train.freezing import freeze
from capsnet.train.initial import Start, create_for, start_from
from capsnet.train.muon import MuonAdamW, mixing_kernels
from capsnet.train.randomness import derive_seed

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
SMALLEST_SHARE = 20  # a batch is at most this part of the training images


@contextlib.contextmanager
def flushed_denormals() -> Iterator[None]:
    """Treat numbers too small for a float's full precision as zero: saturated decoders have such gradients, and processors are
    up to a hundred times slower on them."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def keep_freed_memory() -> None:
    """Make glibc keep the memory that a step frees for the next one. By default it returns much of it to the system and
    requests it again, page by page, each of which must first be zeroed."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, TypeError):  # another C library; Windows
        return
    mallopt(M_MMAP_THRESHOLD, 32 << 20)  # its largest value
    mallopt(M_TRIM_THRESHOLD, 1 << 30)


def prepare_splits(config: Config, dataset: DataSet) -> tuple[Split, Split | None]:
    """Return the training images and the held-out ones that select, if there are any."""
    return hold_out(
        dataset,
        config.hold_out,
        fold=config.fold,
        count=config.validation,
        kept=config.limit,
        seed=config.seed,
    )


def choose_augmentations(recipe: Recipe, dataset: DataSet) -> tuple[str, str]:
    """Return the names of the augmentations early and late in training."""
    early = recipe.augmentation or next(iter(dataset.augmentations), "none")
    late = recipe.late_augmentation or early
    for name in (early, late):
        dataset.check_augmentation(name)
    return early, late


class Plan(NamedTuple):
    """How long a run is. The last epoch is cut short where the recipe fixes the number of images."""

    images_per_epoch: int
    steps_per_epoch: int
    total_steps: int
    epochs: int

    def images_seen(self, batch_size: int, steps: int) -> int:
        """Return how many images the first `steps` steps show."""
        whole, steps = divmod(steps, self.steps_per_epoch)
        return whole * self.images_per_epoch + min(steps * batch_size, self.images_per_epoch)


def fit_batch(recipe: Recipe, images: int) -> Recipe:
    """Limit the batch to a twentieth of the training images, so that small sets get enough steps."""
    return replace(recipe, batch_size=min(recipe.batch_size, max(1, images // SMALLEST_SHARE)))


def plan_run(recipe: Recipe, images_per_epoch: int) -> Plan:
    """Return the steps of a run; a last batch that is not full is a step too."""
    per_epoch = -(-images_per_epoch // recipe.batch_size)
    epochs = max(recipe.epochs, -(-recipe.least_steps // per_epoch))
    total = -(-recipe.images // recipe.batch_size) if recipe.images else epochs * per_epoch
    return Plan(images_per_epoch, per_epoch, total, -(-total // per_epoch))


def build_model(config: Config, dataset: DataSet) -> tuple[CapsuleModel, Start]:
    """Build a model that fits the data set, in training mode but for its frozen norms.

    Its initial values are drawn from the run's seed, or come from other weights (`init`) where those fit.
    """
    torch.manual_seed(derive_seed(config.seed, "initial values"))
    options = {key: as_tuples(value) for key, value in config.model_options.items()}
    if config.init is None:
        model, start = create_for(dataset, config.model, options), Start()
    else:
        model, start = start_from(config.init, dataset, config.model, options, config.init_parts)
    frozen = freeze(model, config.freeze, {*start.new, *start.by_class})
    return model, replace(start, frozen=frozen)


def check_recipe(recipe: Recipe, model: CapsuleModel, validation: Split | None) -> None:
    """Refuse settings that have no meaning for this model or without validation images."""
    if recipe.label_smoothing and not isinstance(model, SoftmaxModel):
        raise CapsNetError(
            f"--label-smoothing is for networks trained with cross-entropy; '{model.architecture.name}' is trained with a "
            "margin, which already asks for no certainty. Leave it out."
        )
    if recipe.patience is not None and validation is None:
        raise CapsNetError("--patience needs validation images to watch: leave out --validation 0.")
    parts = [model.encoder, model.decoder if recipe.reconstruction_weight else None]
    if not any(p.requires_grad for part in parts if part is not None for p in part.parameters()):
        raise CapsNetError("--freeze leaves nothing to train: name fewer parts.")


def build_optimizer(model: CapsuleModel, recipe: Recipe) -> torch.optim.Optimizer:
    """Build the recipe's optimiser of all parameters that learn; Adam in its fused form, which is faster on CPUs too."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if recipe.optimizer == "rmsprop":
        return torch.optim.RMSprop(
            parameters,
            lr=recipe.learning_rate,
            alpha=0.9,
            eps=recipe.epsilon,
            weight_decay=recipe.weight_decay,
        )
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    options: dict[str, Any] = {
        "lr": recipe.learning_rate,
        "eps": recipe.epsilon,
        "weight_decay": recipe.weight_decay,
        "fused": fused,
    }
    if recipe.optimizer == "muon":
        return MuonAdamW(parameters, mixing_kernels(model), kernel_rate=recipe.kernel_rate, **options)
    return torch.optim.AdamW(parameters, **options)
