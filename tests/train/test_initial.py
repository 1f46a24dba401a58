"""`--init`: the options that were asked for are those of the model that is trained and kept."""

import pytest
import torch

import capsnet
from capsnet.cli import main
from capsnet.config import Config
from capsnet.data import load_dataset
from capsnet.errors import CapsNetError
from capsnet.train.prepare import build_model
from capsnet.train.recipes import get_recipe

SHORT = ["--epochs", "1", "--limit", "60", "--threads", "1"]
BUNDLED = "efficient_capsnet.mnist"


def build(init, model="efficient_capsnet", **options):
    recipe = get_recipe("quick", "mnist", model)
    return build_model(
        Config("mnist", model, recipe, init=str(init), model_options=options), load_dataset("mnist")
    )


def same(a, b):
    return all(
        torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


def test_weights_without_a_decoder_are_kept_so_that_they_load(tmp_path):
    words = ["--init", BUNDLED, "--no-reconstruction", "--out", str(tmp_path / "run")]
    main(["train", "sliced_mnist", *SHORT, *words])
    kept = capsnet.load(tmp_path / "run")
    assert kept.decoder is None
    assert kept.architecture.options == {"decoder": False}


def test_without_options_the_weights_are_taken_as_they_are():
    assert same(build(BUNDLED), capsnet.load(BUNDLED))


def test_a_decoder_that_the_weights_lack_begins_anew_and_the_encoder_is_taken_over(tmp_path):
    source = capsnet.create_model("efficient_capsnet", decoder=False)
    capsnet.save(source, tmp_path)
    model = build(tmp_path, decoder=True)
    assert same(model.encoder, source.encoder)
    assert model.decoder is not None
    assert model.training


def test_options_that_have_no_tensors_are_applied(tmp_path):
    source = capsnet.create_model("capsnet", iterations=3)
    capsnet.save(source, tmp_path)
    model = build(tmp_path, "capsnet", iterations=1)
    assert same(model, source)
    assert model.architecture.options == {"iterations": 1}
    images = torch.rand(2, 1, 28, 28)
    assert not torch.equal(model.eval()(images).scores, source.eval()(images).scores)


def test_options_of_the_weights_stay_unless_others_are_given(tmp_path):
    capsnet.save(capsnet.create_model("capsnet", iterations=2), tmp_path)
    assert build(tmp_path, "capsnet").architecture.options == {"iterations": 2}
    options = build(tmp_path, "capsnet", decoder=False).architecture.options
    assert options == {"iterations": 2, "decoder": False}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nonsense": 1}, "nonsense"),
        ({"capsule_layers": [[8, 8]]}, "cannot begin a model with other capsule_layers: "),
    ],
)
def test_options_that_do_not_fit_are_refused(options, sentence):
    with pytest.raises(CapsNetError, match=sentence):
        build(BUNDLED, **options)
