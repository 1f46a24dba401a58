"""Members of an ensemble from one file: which trainings it lists, and that they are trained once."""

import json
import sys

import pytest

from capsnet.cli import main
from capsnet.config import Config, Recipe
from capsnet.errors import CapsNetError
from capsnet.trials import trial_process
from capsnet.trials.members import is_member_file, read_members

CONFIG = Config("mnist", "base_capsnet", Recipe("tiny", epochs=1, batch_size=16, learning_rate=1e-3))
# Stands for `capsnet train`: writes down what it was asked, and a result.
STAND_IN = """
import json, sys
from pathlib import Path
words = sys.argv[1:]
folder = Path(words[words.index("--out") + 1])
(folder / "words.json").write_text(json.dumps(words))
if "broken" in folder.name:
    sys.exit("no such luck")
(folder / "result.json").write_text(json.dumps({"seed": 0, "dataset": "mnist", "validation_error_percent": None}))
"""


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def test_entries_have_words_or_settings_and_seeds(tmp_path):
    listed = [
        {"name": "plain", "train": "mnist --settings average=0.9995 'late_from=0.7'", "seeds": [0, 2]},
        {"name": "whole", "config": CONFIG.to_dict()},
    ]
    file = write(tmp_path / "members.json", listed)
    trials = read_members(file, tmp_path / "runs")
    assert [trial.folder.name for trial in trials] == ["plain-s0", "plain-s2", "whole-s0"]
    assert trials[1].words == ("mnist", "--settings", "average=0.9995", "late_from=0.7")
    assert trials[2].words == ("--config", str(tmp_path / "runs" / "whole.json"))
    assert Config.from_dict(json.loads((tmp_path / "runs" / "whole.json").read_text())) == CONFIG
    again = write(tmp_path / "chosen.json", {"members": listed, "steps": []})
    assert len(read_members(again, tmp_path / "runs")) == 3
    assert is_member_file(str(file))
    assert not is_member_file(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({}, "lists no members"),
        ([], "lists no members"),
        ([{"name": "a"}], "either train or config"),
        ([{"name": "../a", "train": "mnist"}], "a name of letters"),
        ([{"name": "a", "train": "mnist", "seeds": ["x"]}], "a list of whole numbers"),
        ([{"name": "a", "train": "mnist"}, {"name": "a", "train": "mnist"}], "lists 'a-s0' twice"),
        ([{"name": "a", "config": {}}], "not a run's configuration"),
    ],
)
def test_a_file_that_says_something_else_is_one_sentence(content, sentence, tmp_path):
    with pytest.raises(CapsNetError, match=sentence):
        read_members(write(tmp_path / "members.json", content), tmp_path)


def test_the_command_trains_what_is_listed_and_names_what_failed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        trial_process.LocalEngine.__init__, "__defaults__", (1, (sys.executable, "-c", STAND_IN))
    )
    file = write(
        tmp_path / "m.json", [{"name": "good", "train": "mnist"}, {"name": "broken", "train": "mnist"}]
    )
    with pytest.raises(SystemExit):
        main(["ensemble", str(file), "--train-in", str(tmp_path / "runs"), "--jobs", "2"])
    said = capsys.readouterr().err
    assert "1 of 2 members failed" in said
    assert "broken-s0: no such luck" in said
    words = json.loads((tmp_path / "runs" / "good-s0" / "words.json").read_text())
    assert words[:2] == ["train", "mnist"]
    assert words[-5:] == ["--seed", "0", "--out", str(tmp_path / "runs" / "good-s0"), "--resume"]
