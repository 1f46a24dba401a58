"""The curl command of docs/serving.md works as it stands, but for the port."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_curl_example_says_seven(server):
    (line,) = re.findall(r"^curl .*$", (ROOT / "docs" / "serving.md").read_text(), flags=re.MULTILINE)
    words = [word.replace("http://127.0.0.1:8000/", server.url) for word in shlex.split(line)]
    done = subprocess.run(
        [*words, "--noproxy", "*", "-s"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    (prediction,) = json.loads(done.stdout)["predictions"]
    assert prediction["class"] == "7"
    assert prediction["likely"]


def test_the_picture_of_the_playground_is_small():
    assert (ROOT / "docs" / "playground.png").stat().st_size < 300_000
