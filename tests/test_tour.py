"""The tour of docs/pictures.md: every command, on real files, one after the other."""

import csv
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from capsnet.cli import main

ROOT = Path(__file__).parent.parent
TOUR = (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8")
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", TOUR, flags=re.DOTALL) for line in block.splitlines()
]
FEWER = ["--epochs", "1", "--limit", "80", "--threads", "1"]


def serve(words: list[str]) -> str:
    """Start the server on a free port, ask whether it is well, and end it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words[words.index("--port") + 1] = port
    process = subprocess.Popen([sys.executable, "-m", "capsnet", *words], stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                    return str(answer.read())
            except OSError:
                assert process.poll() is None, process.stderr and process.stderr.read()
                time.sleep(0.2)
        pytest.fail("the server did not answer")
    finally:
        process.terminate()
        process.wait(30)


def test_the_commands_of_the_tour_run(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    done = []
    for command in COMMANDS:
        words = shlex.split(command)
        if words[0] == "python":
            subprocess.run([sys.executable, ROOT / words[1], *words[2:]], check=True)
        elif words[1] == "serve":
            assert serve(words[1:])
        else:
            main(words[1:] + (FEWER if words[1] == "train" else []))
        done.append(words[1] if words[0] == "capsnet" else words[0])
    assert done == ["python", "data", "train", "report", "predict", "export", "predict", "serve"]
    assert (tmp_path / "runs" / "photos" / "manifest.csv").exists()
    assert (tmp_path / "report" / "index.html").stat().st_size > 10_000
    with (tmp_path / "predictions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 120
    assert {row["class 2"] for row in rows} <= {"circle", "cross", "square", "triangle"}
    assert "circle" in capfd.readouterr().out
