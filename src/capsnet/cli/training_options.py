"""The options that `capsnet train` and `capsnet trials` share: what is trained, on which part of the data, and how."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from tyro.conf import arg

from capsnet.cli.options import Flag, Kernels, Maybe, Pairs, Parts, parse_pairs
from capsnet.config import Config
from capsnet.errors import CapsNetError, unknown_name
from capsnet.train.settings import OF_RECIPE, make_config


@dataclass(frozen=True)
class TrainingOptions:
    """Each is left as the recipe or the configuration has it when it is not given."""

    model: Maybe[str] = None
    """A model's name (see `capsnet models`); the paper's for the data set when left out."""
    recipe: Maybe[str] = None
    """quick (5 epochs), paper and authors (the paper's 100 epochs and its program's 150), fast (25 epochs of augmented
    handwriting), photos (colour photographs) or budget (300,000 images, for comparisons); quick when left out."""
    epochs: Maybe[int] = None
    """The number of epochs; the recipe's when left out, more for small data sets."""
    images: Maybe[int] = None
    """The number of images to show in total, instead of whole epochs."""
    minutes: Maybe[float] = None
    """A time budget instead of epochs. The speed is measured before the first step; the run records how many images fit."""
    patience: Maybe[int] = None
    """Stop early, after this many epochs without a better validation error."""
    learning_rate: Maybe[float] = None
    """Replaces the recipe's learning rate."""
    batch_size: Maybe[int] = None
    """Replaces the recipe's batch size; a batch is at most a twentieth of the training images."""
    weight_decay: Maybe[float] = None
    """Replaces the recipe's weight decay."""
    balanced: Flag = False
    """Show every class equally often, however many images it has."""
    label_smoothing: Maybe[float] = None
    """The share of each target that is spread over all classes, such as 0.1; for networks trained with cross-entropy."""
    limit: Maybe[int] = None
    """Train on this many images only."""
    validation: Maybe[int] = None
    """Training images held out to select on; min(5,000, 10 %) when left out, 0 for none."""
    hold_out: Maybe[str] = None
    """How validation images are held out: images (one by one), stretches (runs of the stored order), or whole groups of the
    data set, such as writers (MNIST) or objects, so that no group is on both sides. When left out: objects for data sets
    with known viewpoints, else images."""
    fold: Maybe[str] = None
    """Such as 2/5: hold out the second of five fixed parts, the same for every seed; --validation is then ignored."""
    no_test: Flag = False
    """Do not read the test set, while you still choose settings."""
    watch_test: Flag = False
    """Test after every epoch too and record it: what choosing the checkpoint on the test set, as the paper did, would have
    given. The run's own result is chosen without it."""
    no_reconstruction: Flag = False
    """Train without the decoder."""
    augment: Maybe[str] = None
    """The augmentation of training images, by name, or none; the data set's own when left out."""
    image_size: Maybe[int] = None
    """The side in pixels that your own pictures are scaled to."""
    group_by: Maybe[str] = None
    """What keeps your own pictures together when they are split: a column of the CSV, or a regular expression on file
    names."""
    model_options: Pairs = ()
    """The model's options, such as routing=dynamic iterations=3."""
    settings: Pairs = ()
    """Any other settings of the recipe by name, such as average=0.9995 late_from=0.7 teacher_share=0.8 (`capsnet.config`)."""
    data_options: Pairs = ()
    """The data set's options, such as views=azimuth."""
    init: Maybe[str] = None
    """Weights to start from: a run folder, a weights folder or a bundled name. What fits your classes and images is kept,
    classes by their names; the rest is initialised, and the run says which."""
    init_parts: Parts = ()
    """Start from these parts of the weights alone, such as encoder.blocks; they may then be of another model."""
    teacher: Maybe[str] = None
    """Weights of a network, or of a mixture, to imitate beside the labels: its scores, and with pose_weight among the settings
    its poses."""
    freeze: Parts = ()
    """Parts that don't learn, such as encoder.blocks, with the statistics of their BatchNorm; * stands for anything. New
    parameters in them still learn."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""
    threads: Maybe[int] = None
    """CPU threads; train takes all when left out, trials divides the cores among its jobs."""
    kernels: Maybe[Kernels] = None
    """off uses PyTorch's own operations only; auto by default."""
    precision: Maybe[Literal["float32", "bf16"]] = None
    """bf16 trains convolutions and the decoder in bfloat16, nearly twice as fast on processors with instructions for it
    (lscpu lists avx512_bf16 or amx_bf16); the rest, and every evaluation, stays in float32."""
    compile: Flag = False
    """Compile the network with torch.compile."""

    def make_config(self, dataset: str | None, base: Config | None = None, **settings: Any) -> Config:
        """Return the configuration that these options ask for; those not given are the defaults', or `base`'s."""
        model_options = parse_pairs(self.model_options, "--model-options")
        data_options = parse_pairs(self.data_options, "--data-options")
        others = parse_pairs(self.settings, "--settings")
        for name in others:
            if name not in OF_RECIPE:
                raise unknown_name("setting", name, OF_RECIPE, "of a recipe")
        if self.no_reconstruction:
            model_options["decoder"] = False
        if self.image_size is not None:
            data_options["image_size"] = self.image_size
        if self.group_by is not None:
            data_options["group_by"] = self.group_by
        named = {
            "epochs": self.epochs,
            "images": self.images,
            "minutes": self.minutes,
            "patience": self.patience,
            "learning_rate": self.learning_rate,
            "batch_size": self.batch_size,
            "weight_decay": self.weight_decay,
            "balanced": self.balanced or None,
            "label_smoothing": self.label_smoothing,
            "limit": self.limit,
            "validation": self.validation,
            "hold_out": self.hold_out,
            "fold": self.fold,
            "test": False if self.no_test else None,
            "watch_test": self.watch_test or None,
            "augmentation": self.augment,
            "init": self.init,
            "init_parts": self.init_parts or None,
            "teacher": self.teacher,
            "freeze": self.freeze or None,
            "device": None if self.device == "auto" else self.device,
            "threads": self.threads,
            "precision": self.precision,
            "compile": self.compile or None,
        }
        for name in others:
            if named.get(name) is not None:
                raise CapsNetError(
                    f"--settings {name}=... and the option of its own are both given; give one."
                )
        return make_config(
            dataset,
            model=self.model,
            recipe=self.recipe,
            base=base,
            model_options=model_options,
            dataset_options=data_options,
            **{**named, **others, **settings},
        )


# Its fields are options of the command itself, without a prefix.
Training = Annotated[TrainingOptions, arg(name="")]
AS_THEY_ARE = TrainingOptions()
