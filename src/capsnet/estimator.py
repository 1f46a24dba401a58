"""A capsule network with scikit-learn's manners: it fits arrays, and goes into pipelines, cross-validation and grid searches.

How an array becomes images, learned in `fit` and repeated afterwards:

1. (n, H, W) has one channel, (n, C, H, W) has C. Flat rows take `image_shape`; without one, a row's features fill the smallest
   square that holds them, row by row, and the rest of it is black. 64 features are 8x8, 784 are 28x28, 10 are a 4x4 with six
   black pixels. A network of convolutions then takes neighbours in that square for neighbours, which rows of a table are not.
2. The least value of all training images becomes 0, the greatest 1, since that is what a decoder can draw. Later images are
   scaled by the same two numbers and not cut off.
3. Images with a side under 20 pixels, or smaller than the network takes, are enlarged by repeating each pixel: scikit-learn's
   8x8 digits threefold, to 24x24. These networks shrink an image sixteenfold, and need something left.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from capsnet.card import Card
from capsnet.devices import choose_device
from capsnet.errors import CapsNetError
from capsnet.models.base import CapsuleModel, Output
from capsnet.registry import ImageShape, create_model
from capsnet.train.arrays import train_on_arrays
from capsnet.train.prepare import fit_batch
from capsnet.train.randomness import derive_seed
from capsnet.train.recipes import get_recipe

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils import Tags, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "CapsNetClassifier needs scikit-learn, which is not installed: pip install 'capsnet[sklearn]'."
    ) from error

SMALLEST_SIDE = 20
LARGEST_FACTOR = 20
# Always whole batches of this size: a product of another size may be summed in another order, and then an image's scores
# would depend, in the last digit, on the images beside it.
BATCH = 32


class CapsNetClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):
    """A capsule network as a scikit-learn classifier, and as a transformer from images to capsule poses.

    Args:
        model: a name from `capsnet.list_models()`.
        image_shape: (H, W) or (C, H, W), for flat rows; see this file's beginning for rows without one.
        recipe: "quick", "paper" or "authors": the settings that the next three replace.
        epochs, batch_size, learning_rate: the recipe's own when None. A batch is at most a twentieth of the images.
        reconstruction: train with the decoder, where the model has one.
        model_options: others of the model, such as `{"routing": "dynamic"}`.
        random_state: fixes initial values and the order of images.
        device: "auto", "cpu", "cuda" or "mps".

    Attributes:
        classes_: the labels, in the order of the scores.
        model_: the trained `capsnet` model, for `capsnet.save` and everything else.
        image_shape_: what it takes, (C, H, W), after enlarging.
        loss_curve_: the mean loss of each epoch.
        n_features_in_: features of flat rows; else the size of X's second axis.
    """

    def __init__(
        self,
        model: str = "efficient_capsnet",
        *,
        image_shape: tuple[int, ...] | None = None,
        recipe: str = "quick",
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        reconstruction: bool = True,
        model_options: dict[str, Any] | None = None,
        random_state: Any = None,
        device: str = "auto",
    ) -> None:
        self.model = model
        self.image_shape = image_shape
        self.recipe = recipe
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.reconstruction = reconstruction
        self.model_options = model_options
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> "CapsNetClassifier":
        """Trains a new network on images `X` and labels `y`."""
        X, y = validate_data(self, X, y, dtype=np.float32, allow_nd=True, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise CapsNetError(
                f"A classifier needs labels of at least 2 classes; got 1 class: {self.classes_[0]}."
            )
        recipe = fit_batch(self._recipe(), len(X))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        device = choose_device(self.device)
        self._row_shape, self._low, self._high = X.shape[1:], float(X.min()), float(X.max())
        plain = self._plain_images(X)
        # The caller's random numbers stay where they are.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, "initial values"))
            model, self._factor = self._fitting_model((plain.shape[1], plain.shape[2], plain.shape[3]))
            model.card = Card(class_names=tuple(str(label) for label in self.classes_))
            model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
            images = self._enlarge(plain).to(device)
            targets = torch.from_numpy(labels.astype(np.int64)).to(device)
            self.model_, self.loss_curve_ = train_on_arrays(model, images, targets, recipe, seed)
        self.image_shape_ = self.model_.image_shape
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The label with the longest capsule."""
        lengths = self.capsule_lengths(X)
        return self.classes_[lengths.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Capsule lengths divided by their sum. Each length by itself says how likely its class is to be there, and an image
        of nothing known has short ones only, which this sum hides: see `capsule_lengths`."""
        lengths = self.capsule_lengths(X).astype(np.float64)
        return lengths / lengths.sum(axis=1, keepdims=True)

    def capsule_lengths(self, X: Any) -> np.ndarray:
        """(n, classes), each in [0, 1], not normalised."""
        return self._forward(X)[0]

    def transform(self, X: Any) -> np.ndarray:
        """The poses of all class capsules side by side: (n, classes x pose size)."""
        return self._forward(X)[1]

    @property
    def _n_features_out(self) -> int:
        check_is_fitted(self)
        return self._poses_of(
            torch.zeros(1, *self.image_shape_, device=next(self.model_.parameters()).device)
        ).shape[1]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _recipe(self) -> Any:
        recipe = get_recipe(self.recipe, "arrays", self.model)
        given = {name: getattr(self, name) for name in ("epochs", "batch_size", "learning_rate")}
        changes = {name: value for name, value in given.items() if value is not None}
        if self.epochs is not None:
            changes["least_steps"] = 0
        return replace(recipe, **changes)

    def _plain_images(self, X: Float[np.ndarray, "n *s"]) -> Float[Tensor, "n c h w"]:
        """Scaled to the training images' range, and laid out as images."""
        if X.shape[1:] != self._row_shape:
            raise CapsNetError(f"X has rows of shape {X.shape[1:]}, but was fitted on {self._row_shape}.")
        X = (X - self._low) / ((self._high - self._low) or 1.0)
        if X.ndim == 2:
            X = _lay_out(X, self.image_shape)
        elif X.ndim > 4:
            raise CapsNetError(f"X is flat, (n, H, W) or (n, C, H, W); got {X.ndim} axes.")
        elif self.image_shape is not None and X.shape[1:] not in (self.image_shape, (1, *self.image_shape)):
            raise CapsNetError(f"image_shape is {self.image_shape}, but X has images of {X.shape[1:]}.")
        images = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
        return images.unsqueeze(1) if images.ndim == 3 else images

    def _fitting_model(self, shape: ImageShape) -> tuple[CapsuleModel, int]:
        """A new model, and by how much images must be enlarged for it."""
        options = dict(self.model_options or {})
        if not self.reconstruction:
            options["decoder"] = False
        channels, height, width = shape
        first: CapsNetError | None = None
        for factor in range(-(-SMALLEST_SIDE // min(height, width)), LARGEST_FACTOR + 1):
            enlarged = (channels, factor * height, factor * width)
            try:
                with torch.device("meta"):
                    create_model(self.model, enlarged, len(self.classes_), **options)
            except CapsNetError as error:
                first = first or error
                continue
            return create_model(self.model, enlarged, len(self.classes_), **options), factor
        assert first is not None
        raise first

    def _enlarge(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h2 w2"]:
        return images.repeat_interleave(self._factor, dim=2).repeat_interleave(self._factor, dim=3)

    def _forward(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Scores and flat poses of all images."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, allow_nd=True, reset=False)
        plain = self._plain_images(X)
        device = next(self.model_.parameters()).device
        outputs = []
        with torch.inference_mode():
            for part in plain.split(BATCH):
                whole = torch.cat([part, part.new_zeros(BATCH - len(part), *part.shape[1:])])
                output: Output = self.model_(self._enlarge(whole).to(device))
                outputs.append((output.scores[: len(part)].cpu(), output.poses[: len(part)].flatten(1).cpu()))
        scores, poses = (torch.cat(tensors).numpy() for tensors in zip(*outputs, strict=True))
        return scores, poses

    @torch.inference_mode()
    def _poses_of(self, images: Tensor) -> Tensor:
        return self.model_(images).poses.flatten(1)


def _lay_out(X: Float[np.ndarray, "n f"], image_shape: tuple[int, ...] | None) -> np.ndarray:
    """Flat rows as (n, H, W) or (n, C, H, W)."""
    n, features = X.shape
    if image_shape is not None:
        if len(image_shape) not in (2, 3) or int(np.prod(image_shape)) != features:
            raise CapsNetError(
                f"X has {features} features a row, which don't make images of {tuple(image_shape)}."
            )
        return X.reshape(n, *image_shape)
    side = int(np.ceil(np.sqrt(features)))
    return np.pad(X, ((0, 0), (0, side * side - features))).reshape(n, side, side)
