"""Choosing members on the training images that each fold held out, from real runs of tiny networks."""

import json

import pytest
import torch

import capsnet
from capsnet.cli import main
from capsnet.config import trial_of
from capsnet.errors import CapsNetError
from capsnet.evaluate.out_of_fold import (
    FILE,
    Candidate,
    choose_greedily,
    describe_choice,
    judge,
    read_candidates,
)
from capsnet.evaluate.predictions import Predictions
from capsnet.trials.members import read_members

COMMON = {
    "model": "base_capsnet",
    "model_options": {"decoder": False},
    "epochs": 1,
    "threads": 1,
    "test": False,
    "progress": False,
}


@pytest.fixture(scope="module")
def arrays():
    digits = capsnet.data.load_dataset("mnist").train
    images, labels = digits.images[:120, 0].numpy(), digits.labels[:120].numpy() % 3
    return images[:80], labels[:80], images[80:], labels[80:]


@pytest.fixture(scope="module")
def runs(arrays, tmp_path_factory):
    """Two settings, each trained without one of two halves of 80 digits."""
    place = tmp_path_factory.mktemp("folds")
    for name, rate in (("slow", 1e-7), ("fast", 3e-3)):
        for part in (1, 2):
            out = place / f"{name}-fold{part}of2-s0"
            capsnet.train(arrays, out=out, fold=f"{part}/2", learning_rate=rate, **COMMON)
    return place


def candidate(name, noise, seed):
    generator = torch.Generator().manual_seed(seed)
    classes = torch.arange(200)[:, None] % 4
    scores = torch.full((200, 4), 0.1).scatter_(1, classes, 0.9)
    scores = (scores + noise * torch.randn(200, 4, generator=generator)).clamp(0, 1)
    return Candidate(name, {"fold": None, "dataset": "x"}, Predictions(scores, classes))


def test_members_are_taken_while_the_loss_of_the_mean_falls():
    some = [candidate("bad", 3.0, 0), candidate("c", 0.5, 3), candidate("a", 0.3, 1), candidate("b", 0.4, 2)]
    steps = choose_greedily(some, 10)
    assert [step.names[-1] for step in steps] == ["a", "b"]
    losses = [step.loss for step in steps]
    assert losses == sorted(losses, reverse=True)
    assert judge(some[2:]) == steps[-1]
    assert len(choose_greedily(some, 1)) == 1


def test_every_image_is_judged_by_the_network_that_held_it_out(runs, arrays):
    (slow,) = read_candidates([runs / f"slow-fold{part}of2-s0" for part in (1, 2)])
    assert slow.name == "slow"
    assert torch.equal(slow.predictions.classes[:, 0], torch.from_numpy(arrays[1]).long())
    images = torch.from_numpy(arrays[0]).unsqueeze(1)
    for part in (1, 2):
        folder = runs / f"slow-fold{part}of2-s0"
        opened = capsnet.open_weights(folder / "last")
        rows = (opened.split_training()[1].images[:, None] == images).flatten(2).all(2).float().argmax(1)
        expected = opened.model(opened.dataset.preprocessing.apply(images[rows])).scores
        torch.testing.assert_close(slow.predictions.scores[rows], expected.detach(), atol=1e-5, rtol=1e-4)
        assert (folder / FILE).is_file()
    (again,) = read_candidates([runs / f"slow-fold{part}of2-s0" for part in (2, 1)])
    assert torch.equal(again.predictions.scores, slow.predictions.scores)


def test_the_command_writes_a_file_that_lists_the_chosen_members(runs, tmp_path, capsys):
    folders = [str(folder) for folder in sorted(runs.glob("*-s0"))]
    main(["ensemble", *folders, "--greedy", "1", "--out", str(tmp_path / "chosen.json")])
    assert "Taken one after the other" in capsys.readouterr().out
    chosen = json.loads((tmp_path / "chosen.json").read_text())
    assert chosen["selected_on"] == "out-of-fold"
    assert {c["name"] for c in chosen["candidates"]} == {"fast", "slow"}
    best = min(chosen["candidates"], key=lambda c: c["loss"])
    assert [(step["added"], step["loss"]) for step in chosen["steps"]] == [(best["name"], best["loss"])]
    (trial,) = read_members(tmp_path / "chosen.json", tmp_path / "runs")
    assert trial.folder == tmp_path / "runs" / f"{best['name']}-s0"
    config = json.loads((tmp_path / "runs" / f"{best['name']}.json").read_text())
    assert (config["fold"], config["validation"], config["test"]) == (None, 0, True)
    assert config["recipe"]["learning_rate"] == {"slow": 1e-7, "fast": 3e-3}[best["name"]]


def test_the_folds_of_a_taught_trial_have_a_teacher_each():
    taught = [{"seed": 0, "fold": f"{n}/2", "teacher": f"runs/t/wide-fold{n}-s0"} for n in (1, 2)]
    assert trial_of(taught[0]) == trial_of(taught[1]) != trial_of({"seed": 0, "teacher": "runs/t/other-s0"})
    one = candidate("taught", 0.3, 0)._replace(config={"dataset": "x", **taught[0]})
    (member,) = describe_choice([one], choose_greedily([one], 1))["members"]
    assert (member["config"]["teacher"], member["config"]["fold"]) == ("runs/t/wide-s0", None)


def test_missing_folds_and_other_runs_are_refused(runs, tmp_path):
    with pytest.raises(CapsNetError, match="'slow' needs each of 1/2, 2/2 once; it has 2/2"):
        read_candidates([runs / "slow-fold2of2-s0"])
    with pytest.raises(CapsNetError, match="holds no finished run"):
        read_candidates([tmp_path])


@pytest.mark.parametrize(
    "words",
    [
        ["--greedy", "0"],
        ["--greedy", "2", "--best", "1"],
        ["--save", "x", "--select-on-test"],
        ["--jobs", "0"],
    ],
)
def test_options_that_do_not_go_together_are_one_sentence(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["ensemble", "x", *words])
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
