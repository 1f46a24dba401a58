"""`--freeze`: frozen parts keep every bit, statistics too, and all others learn as they would without it."""

import copy
import dataclasses

import pytest
import torch

import capsnet
from capsnet import kernels
from capsnet.config import Config, Recipe
from capsnet.data import load_dataset
from capsnet.data.base import Batch
from capsnet.errors import CapsNetError
from capsnet.evaluate.mode import evaluating
from capsnet.train.averaging import RunningStatistics, statistics, take_statistics
from capsnet.train.freezing import freeze
from capsnet.train.loop import train
from capsnet.train.prepare import build_optimizer, plan_run
from capsnet.train.settings import make_config
from capsnet.train.step import Learner

RECIPE = Recipe("tiny", epochs=2, batch_size=16, learning_rate=1e-2, optimizer="muon", average=0.5)
CONFIG = Config(
    "sliced_mnist",
    "efficient_capsnet",
    RECIPE,
    limit=80,
    validation=16,
    threads=1,
    device="cpu",
    init="efficient_capsnet.mnist",
    freeze=["encoder.blocks"],
)


def batch_for(model, images=8):
    classes = torch.arange(images) % model.architecture.num_classes
    targets = torch.nn.functional.one_hot(classes, model.architecture.num_classes).float()
    pictures = torch.rand(images, *model.image_shape)
    return Batch(pictures, targets, classes[:, None], pictures[:, None])


def of_blocks(model):
    return {name: value.clone() for name, value in model.encoder.blocks.state_dict().items()}


@pytest.mark.parametrize(
    "change", [{}, {"average": None}, {"plain_statistics": 20}, {"optimizer": "rmsprop"}]
)
def test_what_is_frozen_keeps_every_bit_and_the_rest_learns(tmp_path, change):
    config = dataclasses.replace(CONFIG, recipe=dataclasses.replace(RECIPE, **change))
    result = train(config, tmp_path / "run")
    source = capsnet.load("efficient_capsnet.mnist")
    for weights in ("last", "best"):
        trained = capsnet.load(tmp_path / "run" / weights)
        for name, value in of_blocks(source).items():
            assert torch.equal(of_blocks(trained)[name], value), name
        assert not torch.equal(trained.encoder.capsules[0].weight, source.encoder.capsules[0].weight)
    assert result["start"]["frozen"] == ["encoder.blocks"]
    assert result["encoder_parameters"] == 161_824


def test_a_run_with_frozen_parts_resumes_to_the_same_bits(tmp_path):
    class Stop(capsnet.train.Callback):
        def on_step(self, run):
            if run.step == 3:
                raise RuntimeError("killed")

    train(CONFIG, tmp_path / "whole", save_every=0)
    with pytest.raises(RuntimeError, match="killed"):
        train(CONFIG, tmp_path / "killed", save_every=0, callbacks=[Stop()])
    train(CONFIG, tmp_path / "killed", resume=True)
    ours, theirs = (capsnet.load(tmp_path / run / "last").state_dict() for run in ("whole", "killed"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("mode", ["auto", "off"])
@pytest.mark.parametrize("part", ["encoder.blocks", "encoder.blocks.*.conv", "encoder.primary", "decoder"])
def test_the_other_parts_gradients_are_those_without_freezing(part, mode):
    """The accelerators must not take a frozen tensor for one that learns, nor the other way round."""
    model = capsnet.create_model("efficient_capsnet")
    for module in model.modules():  # so that freezing changes no norm's mode
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()
    frozen = copy.deepcopy(model)
    freeze(frozen, [part])
    batch, recipe = batch_for(model), dataclasses.replace(RECIPE, average=None)
    with kernels.using(mode):
        for network in (model, frozen):
            learner = Learner(network, recipe, plan_run(recipe, 80))
            learner.objective(batch, 0.0).backward()
    for (name, ours), theirs in zip(frozen.named_parameters(), model.parameters(), strict=True):
        assert ours.requires_grad == (ours.grad is not None), name
        if ours.requires_grad:
            torch.testing.assert_close(ours.grad, theirs.grad)
    assert any(not p.requires_grad for p in frozen.parameters())


def test_training_convolutions_between_frozen_ones_is_accelerated_as_it_is_computed_plainly():
    losses = []
    for mode in ("auto", "off"):
        torch.manual_seed(0)
        model = capsnet.create_model("efficient_capsnet")
        freeze(model, ["encoder.blocks.0", "*.blocks.2.norm"])
        recipe = dataclasses.replace(RECIPE, average=None)
        with kernels.using(mode):
            learner = Learner(model, recipe, plan_run(recipe, 80))
            model.to(memory_format=torch.channels_last)
            losses.append([learner.step(batch_for(model), n) for n in range(3)])
    torch.testing.assert_close(*(torch.tensor(each) for each in losses), rtol=1e-3, atol=1e-5)


def test_only_parameters_that_learn_are_optimised():
    model = capsnet.create_model("efficient_capsnet", decoder=False)
    freeze(model, ["encoder.blocks"])
    optimizer = build_optimizer(model, RECIPE)
    (group,) = optimizer.param_groups
    learning = [*model.encoder.primary.parameters(), *model.encoder.capsules.parameters()]
    assert {id(p) for p in group["params"]} == {id(p) for p in learning}
    assert not optimizer.kernels


def test_frozen_statistics_are_neither_averaged_nor_taken_anew_nor_shared():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2))
    freeze(model, ["0"])
    assert [norm.training for norm in model] == [False, True]
    follower = RunningStatistics(model)
    assert [norm for norm, _ in follower.norms] == [model[1]]
    assert [id(b) for b in statistics(model, learning=True)] == [
        id(b) for b in (model[1].running_mean, model[1].running_var)
    ]
    take_statistics(model, [torch.randn(8, 2) + 5 for _ in range(3)])
    assert model[0].running_mean.tolist() == [0, 0]
    assert model[1].running_mean.min() > 4
    assert [norm.training for norm in model] == [False, True]


def test_evaluating_gives_every_module_its_own_mode_back():
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.BatchNorm1d(2)).train()
    model[1].eval()
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == [True, True, False]


def test_names_and_patterns_choose_modules_and_tensors():
    model = capsnet.create_model("efficient_capsnet")
    assert freeze(model, ["encoder.blocks.*.norm", "decoder.pixels.bias"]) == [
        *(f"encoder.blocks.{n}.norm" for n in range(4)),
        "decoder.pixels.bias",
    ]
    assert freeze(capsnet.create_model("efficient_capsnet"), ["*.blocks.3"]) == ["encoder.blocks.3"]


def test_what_is_new_learns_inside_a_frozen_part():
    model = capsnet.create_model("efficient_capsnet")
    frozen = freeze(
        model, ["encoder"], new=["encoder.capsules.0.weight", "encoder.capsules.0.routing.log_prior"]
    )
    assert frozen == ["encoder.blocks", "encoder.primary"]
    assert model.encoder.capsules[0].weight.requires_grad


@pytest.mark.parametrize(
    ("parts", "options", "sentence"),
    [
        (["encoder.block"], {}, "no part 'encoder.block'; it has encoder, encoder.blocks, "),
        (["*"], {}, "leaves nothing to train"),
        (["encoder"], {"decoder": False}, "leaves nothing to train"),
    ],
)
def test_parts_that_cannot_be_frozen_are_refused(tmp_path, parts, options, sentence):
    config = dataclasses.replace(CONFIG, freeze=parts, model_options=options)
    with pytest.raises(CapsNetError, match=sentence):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_part_that_is_all_new_is_refused():
    with pytest.raises(CapsNetError, match="is new, so it must learn"):
        freeze(torch.nn.Sequential(torch.nn.Linear(2, 2)), ["0"], new=["0.weight", "0.bias"])


def test_freeze_is_one_name_or_several_and_part_of_the_configuration():
    one, several = (make_config("mnist", freeze=parts) for parts in ("encoder", ("encoder", "decoder")))
    assert one.freeze == ["encoder"]
    assert several.freeze == ["encoder", "decoder"]
    assert Config.from_dict(several.to_dict()) == several
    assert one.differences(several) == ["freeze"]
    assert make_config(None, base=several).freeze == ["encoder", "decoder"]


def test_freezing_needs_no_other_weights(tmp_path):
    config = dataclasses.replace(CONFIG, init=None, limit=40)
    result = train(config, tmp_path / "run")
    assert result["start"]["frozen"] == ["encoder.blocks"]
    assert load_dataset("sliced_mnist").class_names == capsnet.load(tmp_path / "run").card.class_names
