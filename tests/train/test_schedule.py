import itertools

import pytest

from capsnet.config import Recipe
from capsnet.errors import CapsNetError
from capsnet.train.recipes import RECIPES, get_recipe
from capsnet.train.schedule import learning_rate

COSINE = Recipe(name="r", epochs=4, batch_size=1, learning_rate=1.0, schedule="cosine", warmup=0.25)


def test_exponential_is_constant_within_an_epoch_and_decays_between():
    recipe = Recipe(name="r", epochs=3, batch_size=1, learning_rate=0.1, decay=0.5)
    assert [learning_rate(recipe, step, 2, 6) for step in range(6)] == [0.1, 0.1, 0.05, 0.05, 0.025, 0.025]


def test_the_floor_stays_under_the_learning_rate():
    recipe = Recipe(name="r", epochs=9, batch_size=1, learning_rate=0.1, decay=0.1, floor=0.004)
    assert learning_rate(recipe, 8, 1, 9) == 0.004


def test_cosine_rises_in_the_warm_up_and_falls_to_nothing_after():
    rates = [learning_rate(COSINE, step, 10, 40) for step in range(40)]
    assert rates[:10] == pytest.approx([n / 10 for n in range(1, 11)])
    assert all(a >= b for a, b in itertools.pairwise(rates[10:]))
    assert 0 < rates[-1] < 0.01


@pytest.mark.parametrize("dataset", ["mnist", "multimnist", "smallnorb"])
@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_exists_for_every_data_set(name, dataset):
    recipe = get_recipe(name, dataset, "efficient_capsnet")
    assert recipe.name == name
    assert recipe.epochs > 0


def test_the_paper_recipe_is_the_papers():
    recipe = get_recipe("paper", "mnist", "efficient_capsnet")
    assert (recipe.epochs, recipe.batch_size, recipe.learning_rate, recipe.decay) == (100, 16, 5e-4, 0.98)


def test_every_system_has_its_own_papers_recipe():
    assert get_recipe("paper", "mnist", "capsnet").batch_size == 128
    assert get_recipe("paper", "smallnorb", "vb_capsnet").epochs == 350
    ar_capsnet = get_recipe("paper", "mnist", "ar_capsnet")
    assert (ar_capsnet.optimizer, ar_capsnet.batch_size, ar_capsnet.reconstruction_weight) == (
        "rmsprop",
        100,
        0.3,
    )
    per_step = get_recipe("paper", "mnist", "capsnet").decay ** (2000 * 128 / 60000)
    assert per_step == pytest.approx(0.96)


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(CapsNetError, match="did you mean 'paper'"):
        get_recipe("papr", "mnist", "efficient_capsnet")


def test_photos_gives_a_large_network_fewer_epochs_of_larger_batches():
    deep, small = (get_recipe("photos", "cifar10", m) for m in ("residual_capsnet", "efficient_capsnet"))
    assert deep.epochs < small.epochs
    assert deep.batch_size > small.batch_size
    assert deep.optimizer == small.optimizer == "muon"
