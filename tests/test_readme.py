"""What the README shows works: its Python examples run, and so do its commands (long trainings cut short)."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from capsnet.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


# They need files that are not here, take minutes or do not end; each has tests of its own.
SKIPPED = (
    "capsnet convert",
    "capsnet serve",
    "capsnet data make",
    "capsnet train mnist --model",
    "capsnet train path",
    "capsnet train multimnist",
    "capsnet train toyviews",
)
COMMANDS = [
    line.split("#")[0].strip()
    for block in blocks("sh")
    for line in block.splitlines()
    if line.startswith("capsnet ") and not line.startswith(SKIPPED)
]


@pytest.mark.parametrize("code", blocks("python"))
def test_python_examples_run(code):
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command, monkeypatch, tmp_path, capsys):
    words = shlex.split(command)[1:]
    if words[0] == "train":
        words += ["--epochs", "1", "--limit", "60", "--out", str(tmp_path / "run")]
    if words[0] == "predict":
        words[-1] = str(ROOT / words[-1])
    monkeypatch.chdir(tmp_path)
    main(words)
    out = capsys.readouterr().out
    assert out
    if words[0] == "predict":
        assert "7" in out.splitlines()[0]


def test_the_make_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make ([\w-]+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_tables_are_up_to_date_with_results():
    script = ROOT / "docs" / "fill_tables.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"stale: {done.stdout}"
