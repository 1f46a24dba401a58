import dataclasses
import json
from pathlib import Path

import pytest
import torch

from capsnet.cli import main
from capsnet.errors import CapsNetError
from capsnet.evaluate.ensembles import (
    Member,
    answers,
    choose,
    describe_ensemble,
    in_order_of,
    mean_scores,
    short_names,
)
from capsnet.evaluate.predictions import Predictions, Recorder, read_predictions
from capsnet.files import write_json


def member(seed, validation, scores, classes):
    return Member(f"s{seed}", seed, "mnist", validation, Predictions(scores, classes))


@pytest.fixture
def members():
    generator = torch.Generator().manual_seed(1)
    classes = torch.randint(0, 5, (300, 1), generator=generator)
    truth = torch.zeros(300, 5).scatter_(1, classes, 1.0)
    return [
        member(s, v, truth + 0.9 * torch.randn(300, 5, generator=generator), classes)
        for s, v in enumerate((0.4, 0.2, None, 0.3))
    ]


def test_the_ensemble_averages_scores(members):
    expected = sum(m.predictions.scores for m in members) / 4
    torch.testing.assert_close(mean_scores(members).scores, expected.double())


def test_members_come_in_the_order_of_their_validation_error(members):
    known = [m for m in members if m.validation_error_percent is not None]
    assert [m.seed for m in choose(known)] == [1, 3, 0]
    assert [m.seed for m in choose(known, best=2)] == [1, 3]
    assert [m.seed for m in choose(known, above=0.9975)] == [1]
    with pytest.raises(CapsNetError, match="No member has a validation accuracy above"):
        choose(known, above=0.9999)
    with pytest.raises(CapsNetError, match="without validation images"):
        choose(members, best=1)


def test_selecting_on_the_test_set_is_labelled(members):
    chosen = choose(members, best=2, select_on_test=True)
    errors = sorted(m.predictions.error_percent() for m in members)
    assert [m.predictions.error_percent() for m in chosen] == errors[:2]
    assert describe_ensemble(chosen, selected_on="test")["selected_on"] == "test"


def test_agreement_never_rises_with_more_members(members):
    result = describe_ensemble(members, selected_on=None)
    agreement = [point["agreement_percent"] for point in result["curve"]]
    assert agreement[0] == 100
    assert agreement == sorted(agreement, reverse=True)
    first = answers(members[0].predictions)
    every = torch.stack([(answers(m.predictions) == first).all(1) for m in members]).all(0)
    assert agreement[-1] == pytest.approx(100 * float(every.double().mean()), abs=1e-5)
    assert result["curve"][-1]["error_percent"] == result["ensemble"]["test_error_percent"]


def test_pairs_have_two_errors():
    scores = torch.tensor([[0.9, 0.8, 0.1], [0.9, 0.1, 0.8]])
    predictions = Predictions(scores, torch.tensor([[1, 0], [0, 1]]))
    assert predictions.named_errors() == {"pair_error_percent": 50.0, "digit_error_percent": 25.0}


def test_the_command_reads_kept_predictions_and_writes_its_result(members, tmp_path, capsys):
    for m in members[:2]:
        recorder = Recorder()
        recorder(m.predictions.scores, m.predictions.classes)
        recorder.write(tmp_path / m.run)
        assert torch.equal(read_predictions(tmp_path / m.run).scores, m.predictions.scores)
        result = {"seed": m.seed, "dataset": "mnist", "validation_error_percent": m.validation_error_percent}
        write_json(tmp_path / m.run / "result.json", result)
    main(["ensemble", str(tmp_path), "--best", "2", "--json", "--out", str(tmp_path / "e.json")])
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "e.json").read_text())
    assert [m["seed"] for m in printed["members"]] == [1, 0]
    assert printed["selected_on"] == "validation"
    assert str(tmp_path.parent.parent) not in str(printed)
    assert [Path(m["run"]).name for m in printed["members"]] == ["s1", "s0"]
    main(["ensemble", str(tmp_path)])
    assert "none chosen" in capsys.readouterr().out
    main(["ensemble", str(tmp_path / "s0"), str(tmp_path / "s1"), "--select-on-test"])
    assert "members chosen on the test set" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["x", "--best", "0"], ["x", "--above", "2"], ["x", "--patches", "0"]])
def test_bad_options_are_one_sentence(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["ensemble", *words])
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_classes_are_matched_by_name(members):
    first = dataclasses.replace(members[0], class_names=tuple("abcde"))
    order = torch.tensor([3, 1, 4, 0, 2])  # the second network's classes, as the first one numbers them
    turned = Predictions(first.predictions.scores[:, order], order.argsort()[first.predictions.classes])
    second = dataclasses.replace(first, predictions=turned, class_names=tuple("dbeac"))
    same = in_order_of(first, second)
    assert torch.equal(same.predictions.scores, first.predictions.scores)
    assert same.predictions.same_images(first.predictions)
    other = dataclasses.replace(second, class_names=tuple("dbeax"))
    with pytest.raises(CapsNetError, match="have different classes"):
        in_order_of(first, other)


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        (["/home/me/runs/a"], ["a"]),
        (
            ["/home/me/runs/a", "/home/me/runs/b", "efficient_capsnet.mnist"],
            ["a", "b", "efficient_capsnet.mnist"],
        ),
        (["/home/me/t/s0", "/home/me/t/s1"], ["t/s0", "t/s1"]),
        (["/home/me/t/s0", "/home/me/u/s0"], ["t/s0", "u/s0"]),
        (["/home/me/x/run", "/home/me/y/run"], ["x/run", "y/run"]),
        (["/a", "/a"], ["a", "a"]),
    ],
)
def test_members_are_named_without_this_machines_paths(runs, names):
    assert short_names(runs) == names
