"""Training: recipes, one training step, the loop, checkpoints.

The package itself can be called: `capsnet.train("mnist", epochs=3)`.
"""

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from capsnet.train.callbacks import Callback

if TYPE_CHECKING:
    from capsnet.config import Config
    from capsnet.train.run import Run

__all__ = ["Callback", "train"]


def train(
    dataset: Any,
    *,
    model: str | None = None,
    recipe: str | None = None,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    data_dir: str | Path | None = None,
    progress: bool = True,
    save_every: float = 20.0,
    config: "Config | None" = None,
    **settings: Any,
) -> "Run":
    """Train a network, select it on held-out training images, and test it once: `capsnet train`, from Python.

        run = capsnet.train("mnist", epochs=3, learning_rate=1e-3)
        run.model, run.result["test_error_percent"], run.history

    Args:
        dataset: a data set's name, a path to your own pictures, or arrays: (x_train, y_train), which sets a test part aside,
            or (x_train, y_train, x_test, y_test), or a mapping with those names and perhaps class_names. Arrays are NumPy's
            or torch's: bytes 0..255 or fractions 0..1, (N, H, W), (N, H, W, C) or (N, C, H, W). They are kept as an .npz
            file beside the run, so that it can be resumed and evaluated like any other.
        model: a name from `capsnet.list_models()`; the paper's for the data set when left out.
        recipe: quick, paper, authors, fast, photos or budget; quick when left out.
        out: the run's folder; runs/DATASET-MODEL-RECIPE-sSEED when left out. It must not exist, unless `resume` is set.
        callbacks: what takes part in the training (`capsnet.train.Callback`).
        resume: continue the run in that folder; a finished run returns its result.
        data_dir: where data sets are looked for first.
        progress: show a bar on a terminal, lines elsewhere.
        save_every: seconds between states that a killed run can continue from.
        config: another run's configuration, to repeat it with some settings replaced.
        settings: any field of `capsnet.config.Config` or `Recipe`: seed, epochs, minutes, patience, learning_rate, batch_size,
            weight_decay, balanced, label_smoothing, augmentation, limit, validation, hold_out, model_options, device, ...
            `init` names weights to start from, `freeze` the parts that don't learn.
    """
    from capsnet.train.run import train_run

    return train_run(
        dataset,
        model=model,
        recipe=recipe,
        out=out,
        callbacks=callbacks,
        resume=resume,
        data_dir=data_dir,
        progress=progress,
        save_every=save_every,
        config=config,
        **settings,
    )


class _Callable(ModuleType):
    __call__ = staticmethod(train)


__signature__ = inspect.signature(train)
sys.modules[__name__].__class__ = _Callable
