"""What a user asks for becomes a configuration: in Python, for `capsnet train` and for `capsnet trials` alike."""

import dataclasses
import inspect

import pytest

from capsnet.cli.train import train
from capsnet.cli.training_options import TrainingOptions
from capsnet.cli.trials import trials
from capsnet.config import Config, Recipe
from capsnet.errors import CapsNetError
from capsnet.train.settings import default_folder, make_config


def test_the_paper_s_model_and_the_quick_recipe_are_the_defaults():
    config = make_config("multimnist")
    assert (config.model, config.recipe.name) == ("efficient_capsnet_multimnist", "quick")
    assert make_config("mnist") == make_config("mnist", model="efficient_capsnet", recipe="quick")


def test_every_setting_of_a_run_can_be_replaced_by_its_name():
    config = make_config("mnist", learning_rate=0.5, batch_size=7, weight_decay=0.1, seed=4, limit=90)
    assert (config.recipe.learning_rate, config.recipe.batch_size, config.recipe.weight_decay) == (
        0.5,
        7,
        0.1,
    )
    assert (config.seed, config.limit) == (4, 90)
    with pytest.raises(CapsNetError, match="did you mean 'learning_rate'"):
        make_config("mnist", lerning_rate=0.5)


def test_the_last_word_on_a_run_s_length_counts():
    budget = make_config("mnist", recipe="budget")
    assert budget.recipe.images == 300_000
    epochs = make_config("mnist", recipe="budget", epochs=3).recipe
    assert (epochs.epochs, epochs.images, epochs.least_steps) == (3, None, 0)
    minutes = make_config("mnist", recipe="budget", minutes=2).recipe
    assert (minutes.minutes, minutes.images) == (2, None)
    measured = dataclasses.replace(budget, recipe=dataclasses.replace(minutes, images=777))
    assert make_config(None, base=measured).recipe.images == 777  # repeated as it was measured
    assert make_config(None, base=measured, minutes=3).recipe.images is None
    assert make_config(None, base=measured, images=5).recipe.minutes is None


@pytest.mark.parametrize("names", ["epochs minutes", "epochs images", "minutes images"])
def test_two_lengths_of_a_training_are_refused(names):
    with pytest.raises(CapsNetError, match="--{} and --{} each say how long".format(*names.split())):
        make_config("mnist", **dict.fromkeys(names.split(), 3))


def test_settings_beside_another_run_s_configuration_override_it():
    base = make_config("mnist", model_options={"decoder": False}, seed=3)
    config = make_config("fashion_mnist", base=base, model_options={"routing": "dynamic"})
    assert (config.dataset, config.seed) == ("fashion_mnist", 3)
    assert config.model_options == {"decoder": False, "routing": "dynamic"}


@pytest.mark.parametrize(
    "settings",
    [
        {"minutes": 0},
        {"patience": 0},
        {"batch_size": 0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"weight_decay": -1.0},
        {"label_smoothing": 1.0},
    ],
)
def test_a_setting_out_of_range_is_named_as_on_the_command_line(settings):
    (name,) = settings
    with pytest.raises(CapsNetError, match=f"--{name.replace('_', '-')}"):
        make_config("mnist", **settings)


def test_train_and_trials_take_the_same_options():
    for command in (train, trials):
        own = inspect.signature(command).parameters
        assert own["options"].default == TrainingOptions()
        assert not own.keys() & {field.name for field in dataclasses.fields(TrainingOptions)}


def test_an_option_that_is_not_given_changes_nothing():
    recipe = Recipe("tiny", epochs=2, batch_size=16, learning_rate=1e-3, balanced=True, label_smoothing=0.1)
    base = Config("mnist", "cnn_small", recipe, compile=True, test=False, device="cpu", limit=80)
    assert TrainingOptions().make_config(None, base) == base


def test_every_option_reaches_the_configuration():
    words = TrainingOptions(
        minutes=3.0,
        patience=2,
        learning_rate=0.5,
        batch_size=7,
        weight_decay=0.1,
        balanced=True,
        label_smoothing=0.2,
        no_test=True,
        no_reconstruction=True,
        augment="none",
        image_size=32,
        group_by="object",
        data_options=("split=order",),
        compile=True,
    )
    config = words.make_config("pictures/")
    assert config.recipe == dataclasses.replace(
        make_config("pictures/").recipe,
        minutes=3.0,
        patience=2,
        learning_rate=0.5,
        batch_size=7,
        weight_decay=0.1,
        balanced=True,
        label_smoothing=0.2,
        augmentation="none",
    )
    assert (config.test, config.compile) == (False, True)
    assert config.model_options == {"decoder": False}
    assert config.dataset_options == {"image_size": 32, "group_by": "object", "split": "order"}


def test_the_default_folder_names_the_run():
    config = make_config("data/my shapes", fold="2/5", seed=3)
    assert str(default_folder(config)) == "runs/my shapes-efficient_capsnet-quick-fold2of5-s3"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epochs": 2.5}, "epochs is a whole number, not 2.5"),
        ({"epochs": "3"}, "epochs is a whole number, not '3'"),
        ({"seed": None}, "seed is a whole number, not None"),
        ({"limit": True}, "limit is a whole number, not True"),
        ({"learning_rate": "fast"}, "learning_rate is a number, not 'fast'"),
    ],
)
def test_texts_and_fractions_are_not_taken_for_whole_numbers(settings, sentence):
    base = Config("mnist", "efficient_capsnet", Recipe("quick", 1, 16, 1e-3))
    values = base.to_dict()
    place = values if settings.keys() & values.keys() else values["recipe"]
    with pytest.raises(CapsNetError, match=sentence):
        Config.from_dict(
            {**values, **settings} if place is values else {**values, "recipe": {**place, **settings}}
        )
    assert make_config("mnist", learning_rate=1).recipe.learning_rate == 1
