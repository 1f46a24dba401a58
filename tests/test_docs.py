"""The examples of docs/adding.md run, in a process of their own: what they register stays there."""

import re
import subprocess
import sys
from pathlib import Path

ADDING = (Path(__file__).parent.parent / "docs" / "adding.md").read_text()


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
