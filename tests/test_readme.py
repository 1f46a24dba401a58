"""What the README shows works: its Python examples run, and so do its commands (long trainings cut short)."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from capsnet.cli import main
from capsnet.data import load_dataset

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


# They need files that are not here, take minutes or do not end; each has tests of its own.
SKIPPED = (
    "capsnet convert",
    "capsnet export",
    "capsnet serve",
    "capsnet data make",
    "capsnet train mnist --model",
    "capsnet train cifar10",
    "capsnet train eth80",
    "capsnet train path",
    "capsnet train ./shapes",
    "capsnet train multimnist",
    "capsnet train toyviews",
    "capsnet trials",
    "capsnet ensemble runs/fast",  # what those trials have trained
)
COMMANDS = [
    line.split("#")[0].strip()
    for block in blocks("sh")
    for line in block.splitlines()
    if line.startswith("capsnet ") and not line.startswith(SKIPPED)
]


@pytest.fixture
def in_a_folder_of_its_own(monkeypatch, tmp_path, request):
    """With exported/ in it for what reads that."""
    monkeypatch.chdir(tmp_path)

    def enter(text):
        if "exported/" in text:
            (tmp_path / "exported").symlink_to(request.getfixturevalue("exported") / "int8")

    return enter


@pytest.mark.parametrize("code", blocks("python"))
def test_python_examples_run(code, in_a_folder_of_its_own):
    in_a_folder_of_its_own(code)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command, in_a_folder_of_its_own, tmp_path, capsys):
    in_a_folder_of_its_own(command)
    words = shlex.split(command)[1:]
    if words[0] == "train":
        words += ["--epochs", "1", "--limit", "60", "--out", str(tmp_path / "run")]
    if words[0] == "predict":
        words[-1] = str(ROOT / words[-1])
    main(words)
    out = capsys.readouterr().out
    assert out
    if words[0] == "predict":
        assert "7" in out.splitlines()[0]


def test_the_folder_of_pictures_can_be_made_and_read(tmp_path):
    script = ROOT / "benchmarks" / "own_pictures.py"
    subprocess.run([sys.executable, script, tmp_path / "shapes", "--images", "5"], check=True)
    shapes = load_dataset(str(tmp_path / "shapes"), image_size=64)
    assert shapes.image_shape == (3, 64, 64)
    assert shapes.class_names == ("circle", "cross", "square", "triangle")


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
