"""Recipes: training settings by name. A recipe is a function that returns a `Recipe` for a data set and a model.

Without torch, so that the command line can list and check them quickly.
"""

from collections.abc import Callable

from capsnet.config import Recipe
from capsnet.errors import unknown_name


def _capsnet_paper(epochs: int) -> Recipe:
    """Sabour et al. 2017: 0.96 every 2,000 steps of 128 images, and shifts of up to 2 pixels. The paper gives no epochs."""
    return Recipe(
        name="paper",
        epochs=epochs,
        batch_size=128,
        learning_rate=1e-3,
        decay=0.96 ** (60_000 / 128 / 2_000),
        augmentation="shift",
    )


# The settings of the other systems' papers; a decay given per steps is converted to epochs of the paper's data set.
OTHER_PAPERS = {
    "capsnet": _capsnet_paper(100),
    "da_capsnet": _capsnet_paper(100),
    "cnn_sabour": _capsnet_paper(100),
    # Hinton et al. 2018, smallNORB: 0.96 every 20,000 steps of 64 images.
    "matrix_capsnet": Recipe(
        name="paper",
        epochs=300,
        batch_size=64,
        learning_rate=3e-3,
        decay=0.96 ** (24_300 / 64 / 20_000),
        weight_decay=2e-7,
    ),
    "cnn_hinton": Recipe(name="paper", epochs=300, batch_size=64, learning_rate=1e-3),
    # Ribeiro et al. 2020.
    "vb_capsnet": Recipe(name="paper", epochs=350, batch_size=128, learning_rate=1e-3),
    # Choi et al. 2019; their halved rate after 50 epochs lies past the 20 that they report.
    "ar_capsnet": Recipe(
        name="paper",
        epochs=20,
        batch_size=100,
        learning_rate=1e-3,
        optimizer="rmsprop",
        reconstruction_weight=0.3,
    ),
    # Byerly et al. 2020; they scale the input to [-1, 1], which the data set's own pre-processing does not.
    "hfc": Recipe(name="paper", epochs=300, batch_size=120, learning_rate=1e-3, decay=0.98, average=0.999),
}


VIEWS = ("smallnorb", "toyviews", "eth80", "coil100")


def quick(dataset: str, model: str) -> Recipe:
    """Five epochs with a cosine schedule, more for small data sets. MNIST: 99.6 % in about eight minutes on 2 CPU cores.

    Command: capsnet train mnist --recipe quick
    """
    return Recipe(
        name="quick",
        epochs=5,
        batch_size=64,
        learning_rate=3e-3,
        schedule="cosine",
        warmup=0.1,
        average=0.999,
        least_steps=1000,
        # The convolutional decoder costs eighteen times the network that it regularises: two images of a batch are half of it.
        reconstruct_fraction=1 / 32 if dataset in VIEWS and model == "efficient_capsnet_smallnorb" else 1.0,
    )


def fast(dataset: str, model: str) -> Recipe:
    """Aim at the paper's accuracy with a quarter of its images: augmentation that varies digits as handwriting does, weaker in
    the last two fifths of training, Muon for the convolutions' kernels, weight decay, and averaged weights. Chosen on held-out
    writers of the training set; `docs/records.md` lists what was tried.

    MultiMNIST varies its images by pairing them, 4.8 million pairs, and is far from overfitting: there the rate is twice as
    high, a quarter of each batch is reconstructed, and there is no weight decay.

    Command: capsnet train mnist --recipe fast --precision bf16 --validation 0
    """
    pairs, digits = dataset == "multimnist", dataset == "mnist"
    return Recipe(
        name="fast",
        epochs=25 if digits else 20,
        images=4_800_000 if pairs else None,
        batch_size=64,
        learning_rate=12e-3 if pairs else 6e-3 if digits else 3e-3,
        schedule="cosine",
        warmup=0.1,
        optimizer="muon" if pairs or digits else "adam",
        weight_decay=0.0 if pairs else 0.05,
        average=0.999,
        plain_statistics=5000,
        augmentation="handwriting_lively" if digits else None,
        late_augmentation="handwriting_bold" if digits else None,
        least_steps=1000,
        reconstruct_fraction=0.25 if pairs else quick(dataset, model).reconstruct_fraction,
    )


def photos(dataset: str, model: str) -> Recipe:
    """Colour photographs: the convolutions' kernels by Muon, a cosine, weight decay, the average of the weights.

    `residual_capsnet` takes larger batches, since a step of Muon costs more for its larger kernels, and fewer epochs.

    CIFAR-10: about half an hour on one CPU core; `docs/photographs.md` has the errors.
    Command: capsnet train cifar10 --model residual_capsnet --recipe photos --precision bf16 --validation 0
    """
    deep = model == "residual_capsnet"
    return Recipe(
        name="photos",
        epochs=20 if deep else 45,
        batch_size=256 if deep else 64,
        learning_rate=6e-3,
        schedule="cosine",
        warmup=0.1,
        optimizer="muon",
        weight_decay=0.05,
        average=0.998,
        least_steps=1000,
    )


def paper(dataset: str, model: str) -> Recipe:
    """The settings of the model's own paper; for Efficient-CapsNet and its baselines those of Mazzia et al. 2021.

    MNIST: 0.26 % reported by them, after 100 epochs of batch 16. Command: capsnet train mnist --recipe paper
    """
    if model in OTHER_PAPERS:
        return OTHER_PAPERS[model]
    if dataset == "multimnist":
        return Recipe(name="paper", epochs=100, batch_size=64, learning_rate=5e-4, decay=0.97)
    if dataset in VIEWS:
        return Recipe(name="paper", epochs=200, batch_size=16, learning_rate=5e-4, decay=0.99)
    return Recipe(name="paper", epochs=100, batch_size=16, learning_rate=5e-4, decay=0.98)


def authors(dataset: str, model: str) -> Recipe:
    """The settings of the paper's published program for every data set, which differ from the paper's text.

    Command: capsnet train mnist --recipe authors
    """
    return Recipe(name="authors", epochs=150, batch_size=16, learning_rate=5e-4, decay=0.97, floor=5e-5)


def budget(dataset: str, model: str) -> Recipe:
    """The same plain settings for every system, 300,000 images shown: for comparisons, not for records.

    Command: capsnet train mnist --recipe budget --model ar_capsnet
    """
    return Recipe(
        name="budget",
        epochs=1,
        images=300_000,
        batch_size=64,
        learning_rate=1e-3,
        schedule="cosine",
        warmup=0.1,
    )


RECIPES: dict[str, Callable[[str, str], Recipe]] = {
    "fast": fast,
    "photos": photos,
    "quick": quick,
    "paper": paper,
    "authors": authors,
    "budget": budget,
}


def get_recipe(name: str, dataset: str, model: str) -> Recipe:
    """Return the recipe `name` for a data set and a model."""
    if name not in RECIPES:
        raise unknown_name("recipe", name, RECIPES)
    return RECIPES[name](dataset, model)
