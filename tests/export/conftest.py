"""The bundled weights exported once for all tests, in both formats."""

import fcntl
import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import sys
import torch
from functools import cache
from pathlib import Path
from capsnet.data import load_dataset
from capsnet.export import write
from capsnet.saving import load
torch.set_num_threads(1)
write.build_graph = cache(write.build_graph)  # tracing is most of the time
model, dataset = load("efficient_capsnet.mnist"), load_dataset("mnist")
for format in ("onnx", "int8"):
    write.export_model(model, Path(sys.argv[1]) / format, format=format, dataset=dataset)
"""


def _run(program, *arguments):
    """In a process of its own: the shape checks of conftest.py would turn the batch size into a constant."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def run_without_shape_checks():
    """Runs a program in a process without the checks of conftest.py."""
    return _run


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A folder with onnx/ and int8/; processes that test side by side share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "exported"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "int8").exists():
            _run(PROGRAM, folder)
    return folder
