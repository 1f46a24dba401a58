"""A time budget: how many images a run can show in so many minutes on this machine.

Measured before the first step, on a copy of the model that is thrown away, and recorded in the run's configuration as
`images`. From then on the run is planned like any other: it resumes to the same bits, and repeating it from its config.json
takes the measured number of steps. If the machine is slower or faster later on, the run takes longer or shorter.
"""

import copy
import itertools
import time
from typing import TYPE_CHECKING

from capsnet.data.base import Split
from capsnet.evaluate.metrics import evaluate
from capsnet.train.prepare import plan_run
from capsnet.train.step import Learner

if TYPE_CHECKING:
    from capsnet.models.base import CapsuleModel
    from capsnet.train.loop import Training

SHARE = 0.05  # of the budget, at most, for measuring
WARM_UP, FEWEST, MOST = 3, 5, 50  # steps
SOME = 512  # validation images


def images_within(run: "Training", model: "CapsuleModel") -> int:
    """Return how many training images, each with its share of the validations, fit into the recipe's minutes."""
    began = time.perf_counter()
    budget = 60 * (run.recipe.minutes or 0)
    plan = plan_run(run.recipe, run.images_per_epoch)
    trial = copy.deepcopy(model)
    learner = Learner(
        trial,
        run.recipe,
        plan,
        team=run.team,
        precision=run.config.precision,
        compile=run.config.compile,
        teacher=run.teacher,
    )
    images, seconds = 0, 0.0
    for count, (step, rows) in enumerate(itertools.cycle(run.batches(0))):
        at = time.perf_counter()
        learner.step(run.batch(step, rows, late=False), step)
        if count >= WARM_UP:
            images, seconds = images + len(rows), seconds + time.perf_counter() - at
        enough = count >= WARM_UP + FEWEST and time.perf_counter() - began > SHARE * budget
        if run.team.any(enough or count >= WARM_UP + MOST):
            break
    learner.release()
    per_image = seconds / images + _validation_seconds(run, learner.trained) / run.images_per_epoch
    # On a busy machine, measuring takes longer; it never takes more than half of the budget away.
    left = max(budget / 2, budget - (time.perf_counter() - began))
    return max(1, round(left / per_image))


def _validation_seconds(run: "Training", model: "CapsuleModel") -> float:
    """Estimate how long one validation takes."""
    held_out = run.validation_split
    if held_out is None:
        return 0.0
    some = Split(*(tensor[:SOME] for tensor in held_out))
    began = time.perf_counter()
    evaluate(model, run.dataset, some, shard=run.team.share, add_up=run.team.add_up)
    return (time.perf_counter() - began) * len(held_out.labels) / len(some.labels)
