"""`--init`: what fits is kept, class by class; the rest is made anew; what was asked for is what is trained and kept."""

import json
from dataclasses import replace

import pytest
import torch

import capsnet
from capsnet.card import Card
from capsnet.cli import main
from capsnet.config import Config
from capsnet.data import load_dataset
from capsnet.errors import CapsNetError
from capsnet.train.initial import cover, start_from, take_over
from capsnet.train.prepare import build_model
from capsnet.train.recipes import get_recipe

SHORT = ["--epochs", "1", "--limit", "60", "--threads", "1"]
BUNDLED = "efficient_capsnet.mnist"


def data_like_mnist(image_shape=(1, 28, 28), class_names=tuple("0123456789")):
    """MNIST as far as a model's size is concerned."""
    return replace(load_dataset("mnist"), image_shape=image_shape, class_names=class_names)


def build(init, model="efficient_capsnet", dataset=None, freeze=(), **options):
    recipe = get_recipe("quick", "mnist", model)
    config = Config(
        "mnist", model, recipe, init=init and str(init), model_options=options, freeze=list(freeze)
    )
    return build_model(config, dataset or load_dataset("mnist"))


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
    model, start = build(BUNDLED)
    assert same(model, capsnet.load(BUNDLED))
    assert start.to_dict()["kept"] == ["encoder", "decoder"]
    assert [start.new, start.by_class, start.left, start.classes_new] == [{}, [], [], []]


def test_a_decoder_that_the_weights_lack_begins_anew_and_the_encoder_is_taken_over(tmp_path):
    source = capsnet.create_model("efficient_capsnet", decoder=False)
    capsnet.save(source, tmp_path)
    model, start = build(tmp_path, decoder=True)
    assert same(model.encoder, source.encoder)
    assert model.decoder is not None
    assert model.training
    assert all(name.startswith("decoder.") for name in start.new)


def test_options_that_have_no_tensors_are_applied(tmp_path):
    source = capsnet.create_model("capsnet", iterations=3)
    capsnet.save(source, tmp_path)
    model, _ = build(tmp_path, "capsnet", iterations=1)
    assert same(model, source)
    assert model.architecture.options == {"iterations": 1}
    images = torch.rand(2, 1, 28, 28)
    assert not torch.equal(model.eval()(images).scores, source.eval()(images).scores)


def test_options_of_the_weights_stay_unless_others_are_given(tmp_path):
    capsnet.save(capsnet.create_model("capsnet", iterations=2), tmp_path)
    assert build(tmp_path, "capsnet")[0].architecture.options == {"iterations": 2}
    options = build(tmp_path, "capsnet", decoder=False)[0].architecture.options
    assert options == {"iterations": 2, "decoder": False}


def test_with_other_options_what_fits_is_kept():
    model, start = build(BUNDLED, capsule_layers=((8, 8),))
    assert same(model.encoder.blocks, capsnet.load(BUNDLED).encoder.blocks)
    assert start.left == []
    assert all(name.startswith("encoder.capsules.") for name in start.new)


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        ("efficient_capsnet", {"nonsense": 1}, "nonsense"),
        ("cnn_small", {}, "are of the model 'efficient_capsnet'"),
    ],
)
def test_other_models_and_unknown_options_are_refused(model, options, sentence):
    with pytest.raises(CapsNetError, match=sentence):
        build(BUNDLED, model, **options)


def test_classes_are_matched_by_name_and_others_are_made_anew():
    source = capsnet.load(BUNDLED)
    model, start = build(BUNDLED, dataset=data_like_mnist(class_names=("seven", "3", "a", "0")))
    ours, theirs = model.state_dict(), source.state_dict()
    assert (start.classes_kept, start.classes_new) == (["3", "0"], ["seven", "a"])
    for name in ("encoder.capsules.0.weight", "encoder.capsules.0.routing.log_prior"):
        assert name in start.by_class
        assert torch.equal(ours[name][[1, 3]], theirs[name][[3, 0]])
        assert not torch.isclose(ours[name][0], theirs[name]).flatten(1).all(1).any()
    first = [values["decoder.hidden.0.weight"].unflatten(1, (-1, 16)) for values in (ours, theirs)]
    assert torch.equal(first[0][:, [1, 3]], first[1][:, [3, 0]])
    assert start.to_dict()["by_class"] == ["encoder.capsules", "decoder.hidden.0.weight"]


def test_as_many_classes_of_other_names_are_all_new():
    _, start = build(BUNDLED, dataset=data_like_mnist(class_names=tuple("abcdefghij")))
    assert set(start.new) == {
        "encoder.capsules.0.weight",
        "encoder.capsules.0.routing.log_prior",
        "decoder.hidden.0.weight",
    }
    assert set(start.new.values()) == {"made for other classes"}
    assert start.to_dict()["kept"][:2] == ["encoder.blocks", "encoder.primary"]


@pytest.mark.parametrize(
    ("image_shape", "new"),
    [
        ((3, 28, 28), {"encoder.blocks.0.conv.weight", "decoder.pixels.weight", "decoder.pixels.bias"}),
        ((1, 32, 32), {"encoder.primary.depthwise.weight", "decoder.pixels.weight", "decoder.pixels.bias"}),
    ],
)
def test_what_other_channels_and_sizes_leave_of_the_weights_is_kept(image_shape, new):
    model, start = build(BUNDLED, dataset=data_like_mnist(image_shape))
    assert set(start.new) == new
    theirs = capsnet.load(BUNDLED).state_dict()
    for name, tensor in model.state_dict().items():
        assert (name in new) or torch.equal(tensor, theirs[name])


@pytest.mark.parametrize("name", capsnet.list_models())
def test_every_model_judges_its_classes_as_before_in_another_order(name, small_model, small_options):
    """So the classes' places are found in all tensors: in class capsules, last layers, routings and decoders."""
    source = small_model(name).eval()
    classes = source.architecture.num_classes
    for parameter in source.parameters():  # no two classes alike
        parameter.data += 0.05 * torch.randn_like(parameter)
    model = small_model(name).eval()
    names = [str(n) for n in range(classes)]
    turned = names[1:] + names[:1]
    start = take_over(model, source, names, turned)
    assert (start.new, start.by_class) == ({}, [])
    images = torch.rand(3, *model.image_shape)
    ours, theirs = model(images), source(images)
    torch.testing.assert_close(ours.scores, theirs.scores.roll(-1, 1))
    if model.decoder is not None:
        shown = torch.tensor([0, 1, 2])
        torch.testing.assert_close(
            model.reconstruct(ours.poses, shown), source.reconstruct(theirs.poses, shown + 1)
        )


def test_weights_that_dont_name_their_classes_keep_as_many(tmp_path):
    source = capsnet.create_model("efficient_capsnet", num_classes=3, decoder=False)
    capsnet.save(source, tmp_path, card=Card())
    three = data_like_mnist(class_names=("a", "b", "c"))
    assert same(build(tmp_path, dataset=three)[0], source)
    _, start = build(tmp_path, dataset=data_like_mnist(class_names=("a", "b")))
    assert "encoder.capsules.0.weight" in start.new


def test_a_fine_tuned_run_says_what_was_kept_and_loads_again(tmp_path, capfd):
    for name in ("0", "seven"):
        (tmp_path / "signs" / name).mkdir(parents=True)
    digits = load_dataset("mnist").train
    from PIL import Image

    for n in range(40):
        folder = tmp_path / "signs" / ("0", "seven")[n % 2]
        Image.fromarray(digits.images[n, 0].numpy()).resize((32, 32)).save(folder / f"{n}.png")
    run = tmp_path / "run"
    words = ["--init", BUNDLED, "--freeze", "encoder.blocks", "--epochs", "1", "--threads", "1", "--json"]
    main(["train", str(tmp_path / "signs"), *words, "--out", str(run)])
    told = capfd.readouterr()
    start = json.loads(told.out)["start"]
    assert start["kept"][0] == "encoder.blocks"
    assert start["frozen"] == ["encoder.blocks"]
    assert start["classes_kept"] == ["0"]
    assert start["classes_new"] == ["seven"]
    assert "encoder.primary.depthwise.weight" in start["new"]
    assert "Frozen: encoder.blocks\n" in told.err
    assert "New: encoder.primary.depthwise.weight" in told.err
    model = capsnet.load(run)
    assert model.card.class_names == ("0", "seven")
    assert model.card.provenance["start"] == start
    assert same(model.encoder.blocks, capsnet.load(BUNDLED).encoder.blocks)


def test_names_cover_exactly_what_is_chosen():
    everything = ["a.b.w", "a.b.v", "a.c.w", "a.cd", "e"]
    assert cover(["a.b.w", "a.b.v"], everything) == ["a.b"]
    assert cover(["a.c.w"], everything) == ["a.c"]
    assert cover(everything[:4], everything) == ["a"]
    assert cover(["a.b.w", "e"], everything) == ["a.b.w", "e"]
    assert cover([], everything) == []


def test_parts_of_another_model_start_it(tmp_path):
    torch.manual_seed(1)
    source = capsnet.create_model("efficient_capsnet", decoder=False)
    capsnet.save(source, tmp_path / "singles")
    data = load_dataset("multimnist")
    weights = str(tmp_path / "singles")
    model, start = start_from(weights, data, "efficient_capsnet_multimnist", {}, ["encoder.blocks"])
    assert start.to_dict()["kept"] == ["encoder.blocks"]
    assert torch.equal(model.encoder.blocks[2].conv.weight, source.encoder.blocks[2].conv.weight)
    assert start.new["encoder.capsules.0.weight"] == "which --init-parts leaves out"
    with pytest.raises(CapsNetError, match="the weights have no part 'blocks'; they have encoder"):
        start_from(weights, data, "efficient_capsnet_multimnist", {}, ["blocks"])
    with pytest.raises(CapsNetError, match="say --model efficient_capsnet"):
        start_from(weights, data, "efficient_capsnet_multimnist", {})
