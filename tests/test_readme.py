"""What the README and the pages of docs/ show works: Python examples and commands run (long trainings cut short).

A block that is not run says why in a comment before it, `<!-- not run: ... -->`. Some pages have a test of their own.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from capsnet.cli import main
from capsnet.data import load_dataset

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
# Pages whose blocks are run elsewhere, or not at all, and where or why.
ELSEWHERE = {
    "docs/pictures.md": "tests/test_tour.py",
    "docs/adding.md": "tests/test_docs.py",
    "docs/finetuning.md": "tests/test_docs.py",
    "docs/photographs.md": "a download of 170 MB and trainings of half an hour: tests/data/test_cifar10.py",
    "docs/ensembles.md": "trainings of hours: tests/test_docs.py, tests/evaluate, tests/train/test_teacher.py",
    "docs/records.md": "studies of hours: tests/experiments",
    "docs/unknown.md": "networks on whole test sets: tests/analysis/test_unknown.py, tests/analysis/test_attacks.py",
    "docs/scaling.md": "clusters: tests/train/test_distributed.py, tests/trials",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for page in PAGES
    if str(page.relative_to(ROOT)) not in ELSEWHERE
}
# The commands that need files that are not here, take minutes or do not end, and what tests them instead.
SKIPPED = {
    "capsnet convert": "tests/test_convert.py",
    "capsnet export": "tests/export",
    "capsnet serve": "tests/serve",
    "capsnet data make": "tests/data/toyviews",
    "capsnet train mnist --model": "tests/models, tests/functional/routing",
    "capsnet train cifar10": "tests/data/test_cifar10.py",
    "capsnet train eth80": "tests/data/test_turntables.py",
    "capsnet train path": "tests/train, tests/data/test_folder.py",
    "capsnet train multimnist": "tests/train/test_pairs.py",
    "capsnet train toyviews": "tests/data/toyviews",
    "curl": "tests/serve/test_readme_curl.py",
}


def blocks(language):
    """The blocks in that language that are run, each once, and the first page that has it."""
    found = {}
    for page, text in TEXTS.items():
        for mark, code in re.findall(
            rf"(<!-- not run: [^>]+ -->\n *)?```{language}\n(.*?)```", text, flags=re.DOTALL
        ):
            if not mark:
                found.setdefault(code, page)
    return found


LINES = list(
    dict.fromkeys(
        line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines() if line.strip()
    )
)
FOUR = [line for line in LINES if "photos" in line and line.startswith("capsnet ") and "cifar10" not in line]
COMMANDS = [
    line
    for line in LINES
    if line.startswith("capsnet ") and not line.startswith(tuple(SKIPPED)) and line not in FOUR
]


@pytest.fixture
def in_a_folder_of_its_own(monkeypatch, tmp_path, request):
    """With exported/ in it for what reads that."""
    monkeypatch.chdir(tmp_path)

    def enter(text):
        if "exported/" in text:
            (tmp_path / "exported").symlink_to(request.getfixturevalue("exported") / "int8")

    return enter


@pytest.mark.parametrize(("code", "page"), blocks("python").items())
def test_python_examples_run(code, page, in_a_folder_of_its_own):
    in_a_folder_of_its_own(code)
    exec(compile(code, page, "exec"), {"__name__": "readme"})


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


def test_the_four_commands_for_pictures_are_those_of_the_tour_which_a_test_runs():
    tour = (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8").splitlines()
    assert len(FOUR) == 4
    assert set(FOUR) <= set(tour)


def test_the_make_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = [line.split()[1] for line in LINES if line.startswith("make ")]
    assert {"run", "play", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_every_other_line_of_a_shell_block_has_a_test():
    known = ("capsnet ", "make ", *SKIPPED)
    assert [line for line in LINES if not line.startswith(known)] == []


def test_the_folder_of_pictures_can_be_made_and_read(tmp_path):
    script = ROOT / "benchmarks" / "own_pictures.py"
    subprocess.run([sys.executable, script, tmp_path / "shapes", "--images", "5"], check=True)
    shapes = load_dataset(str(tmp_path / "shapes"), image_size=64)
    assert shapes.image_shape == (3, 64, 64)
    assert shapes.class_names == ("circle", "cross", "square", "triangle")


def test_the_readme_is_short():
    assert len(README.split()) <= 900


def test_tables_are_up_to_date_with_results():
    script = ROOT / "docs" / "fill_tables.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"stale: {done.stdout}"
