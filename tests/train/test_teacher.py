"""Learning from a teacher: its scores and poses come near, whatever the labels say."""

import pytest
import torch

import capsnet
from capsnet.config import Recipe
from capsnet.data.base import Batch
from capsnet.errors import CapsNetError
from capsnet.models.mixture import mix
from capsnet.train.prepare import plan_run
from capsnet.train.step import Learner, training_loss
from capsnet.train.teacher import Teacher, find_teacher

SHAPE = (1, 20, 20)
RECIPE = Recipe("test", epochs=1, batch_size=8, learning_rate=3e-3, reconstruction_weight=0.0)


def network(seed, **options):
    torch.manual_seed(seed)
    return capsnet.create_model("efficient_capsnet", SHAPE, 3, decoder=False, **options)


def batch_of(k=1, n=8):
    torch.manual_seed(9)
    originals = torch.rand(n, k, *SHAPE)
    classes = torch.stack([(torch.arange(n) + shift) % 3 for shift in range(k)], dim=1)
    targets = torch.zeros(n, 3).scatter_(1, classes, 1.0)
    return Batch(originals.sum(dim=1).clamp_max(1), targets, classes, originals)


def long_capsules(model):
    """Untrained capsules are short, and short ones differ little whatever is wrong with them."""
    with torch.no_grad():
        model.encoder.capsules[-1].weight *= 6
    return model.eval()


def test_the_loss_is_the_labels_and_the_teachers_share():
    recipe = Recipe(**{**vars(RECIPE), "teacher_share": 0.3, "pose_weight": 0.7})
    model, teacher, batch = network(0).eval(), long_capsules(network(1)), batch_of()
    ours, theirs = model(batch.images), teacher(batch.images)
    expected = 0.7 * model.classification_loss(ours, batch.targets)
    expected = expected + 0.3 * (ours.scores - theirs.scores).square().sum(dim=1).mean()
    expected = expected + 0.7 * (ours.poses - theirs.poses).square().sum(dim=(1, 2)).mean()
    torch.testing.assert_close(
        training_loss(model, batch, recipe, 1.0, teacher=Teacher(teacher, recipe)), expected
    )


def test_digits_apart_teach_each_their_own_capsule():
    recipe = Recipe(**{**vars(RECIPE), "teacher_share": 1.0, "pose_weight": 1.0, "teacher_apart": True})
    model, teacher, batch = network(0).eval(), long_capsules(network(1)), batch_of(k=2)
    first, second = (teacher(batch.originals[:, n]) for n in (0, 1))
    taught = Teacher(teacher, recipe).look(batch)
    torch.testing.assert_close(taught.scores, torch.maximum(first.scores, second.scores))
    ours = model(batch.images)
    expected = (ours.scores - taught.scores).square().sum(dim=1).mean()
    for n in range(len(batch.classes)):
        for output, c in zip((first, second), batch.classes[n].tolist(), strict=True):
            expected = expected + (ours.poses[n, c] - output.poses[n, c]).square().sum() / len(batch.classes)
    torch.testing.assert_close(
        training_loss(model, batch, recipe, 1.0, teacher=Teacher(teacher, recipe)), expected
    )


@pytest.mark.parametrize("kind", ["efficient_capsnet", "cnn_small"])
def test_a_network_comes_near_its_teacher_and_leaves_it_as_it_is(kind):
    recipe = Recipe(**{**vars(RECIPE), "teacher_share": 1.0})
    torch.manual_seed(1)
    teacher = capsnet.create_model(kind, SHAPE, 3, decoder=False).eval()
    if kind == "efficient_capsnet":
        long_capsules(teacher)
    torch.manual_seed(0)
    model = capsnet.create_model(kind, SHAPE, 3, decoder=False)
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    batch = batch_of()
    learner = Learner(model, recipe, plan_run(recipe, 320), teacher=Teacher(teacher, recipe))
    losses = [learner.step(batch, number) for number in range(30)]
    assert losses[-1] < 0.5 * losses[0] or kind == "cnn_small"
    assert losses[-1] < losses[0]
    assert all(torch.equal(teacher.state_dict()[name], tensor) for name, tensor in before.items())
    assert set(learner.objective.state_dict()) == {f"model.{name}" for name in model.state_dict()}


def test_a_run_names_its_teacher_a_mixture(tmp_path):
    torch.manual_seed(3)
    capsnet.save(mix([capsnet.create_model("base_capsnet")] * 2, views="shift"), tmp_path / "mixture")
    weights = str(tmp_path / "mixture")
    run = capsnet.train(
        "sliced_mnist",
        model="base_capsnet",
        model_options={"decoder": False},
        out=tmp_path / "run",
        teacher=weights,
        pose_weight=0.1,
        limit=60,
        epochs=1,
        validation=0,
        threads=1,
        test=False,
        progress=False,
    )
    assert run.result["config"]["teacher"] == weights
    assert len(run.result["teacher_sha256"]) == 64
    assert run.model.card.provenance["teacher"] == weights
    assert run.model.card.without_places().provenance["teacher"] == "mixture"


@pytest.mark.parametrize(
    ("teacher", "settings", "sentence"),
    [
        (None, {"pose_weight": 1.0}, "need a --teacher"),
        ("efficient_capsnet.multimnist", {}, "takes images of 1x36x36; 'mnist' has 1x28x28"),
        (
            "efficient_capsnet.mnist",
            {"pose_weight": 1.0, "model": "cnn_small"},
            "only class capsules of one size",
        ),
    ],
)
def test_a_teacher_that_does_not_fit_is_one_sentence(teacher, settings, sentence):
    from capsnet.data import load_dataset
    from capsnet.train.settings import make_config

    config = make_config("mnist", teacher=teacher, **settings)
    data = load_dataset("mnist")
    model = capsnet.create_model(config.model)
    with pytest.raises(CapsNetError, match=sentence):
        find_teacher(config, data, model, torch.device("cpu"))
