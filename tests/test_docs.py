"""The examples of the docs run. Those of adding.md have a process of their own: what they register stays there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from capsnet import create_model
from capsnet.cli import main
from capsnet.cli.options import parse_pairs
from capsnet.data import load_dataset
from capsnet.files import read_json
from capsnet.trials.members import read_members

DOCS = Path(__file__).parent.parent / "docs"
ADDING = (DOCS / "adding.md").read_text(encoding="utf-8")
ENSEMBLES = (DOCS / "ensembles.md").read_text(encoding="utf-8")
FINETUNING = (DOCS / "finetuning.md").read_text(encoding="utf-8")


def test_the_worked_examples_run_and_the_new_data_set_trains(tmp_path):
    code = "\n".join(re.findall(r"```python\n(.*?)```", ADDING, flags=re.DOTALL))
    code += (
        "\nfrom capsnet.cli import main\n"
        "main(['train', 'stripes', '--model', 'tiny_capsnet', '--epochs', '2', '--threads', '1', '--out', 'run'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "test error" in done.stdout


def test_the_members_that_are_listed_can_be_trained(tmp_path):
    (listed,) = re.findall(r"```json\n(.*?)```", ENSEMBLES, flags=re.DOTALL)
    (tmp_path / "members.json").write_text(listed)
    trials = read_members(tmp_path / "members.json", tmp_path)
    assert [trial.folder.name for trial in trials] == [
        "plain-s0",
        "plain-s1",
        "upright-s0",
        "narrow-s0",
        "adam-s0",
    ]
    for trial in trials:
        words = list(trial.words)
        options = words[words.index("--model-options") + 1 :] if "--model-options" in words else []
        create_model("efficient_capsnet", **parse_pairs(options, "--model-options"))


@pytest.fixture
def among_digits(tmp_path, monkeypatch):
    """In a folder with some digits of three classes in path/to/digits."""
    digits = load_dataset("mnist").train
    for label in range(3):
        folder = tmp_path / "path" / "to" / "digits" / str(label)
        folder.mkdir(parents=True)
        for n, image in enumerate(digits.images[digits.labels == label][:12]):
            Image.fromarray(image[0].numpy()).save(folder / f"{n}.png")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", re.findall(r"^capsnet .*", FINETUNING, flags=re.MULTILINE))
def test_the_commands_of_fine_tuning_run(command, among_digits):
    words = shlex.split(command.replace("--seeds 3", "--seeds 1"))[1:]
    main([*words, "--epochs", "1", "--threads", "1", "--out", "run"])
    (result,) = (read_json(file) for file in Path("run").rglob("result.json"))
    assert result["start"]["classes_kept"] == ["0", "1", "2"]
    assert result["start"]["frozen"] == (["encoder.blocks"] if "--freeze" in words else [])


def test_the_python_of_fine_tuning_runs(among_digits):
    (code,) = re.findall(r"```python\n(.*?)```", FINETUNING, flags=re.DOTALL)
    names: dict = {}
    exec("import capsnet\n" + code.replace("freeze=", "epochs=1, threads=1, freeze="), names)
    assert names["run"].result["start"]["frozen"] == ["encoder.blocks"]
