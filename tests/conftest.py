"""What every test runs under: shapes checked against their annotations, one thread, a fixed seed."""

import fcntl
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import hypothesis
import pytest
import torch
from jaxtyping import install_import_hook

import capsnet

# Must come before the first import of these packages: the hook rewrites them as they are loaded.
# (The renderer of toyviews has no shapes in its signatures, and writes whole numbers where floats are meant.)
DATA = Path(capsnet.__path__[0]) / "data"
install_import_hook(
    [
        "capsnet.functional",
        "capsnet.kernels",
        "capsnet.layers",
        "capsnet.models",
        *(f"capsnet.data.{file.stem}" for file in DATA.glob("*.py")),
    ],
    "beartype.beartype",
)

torch.set_num_threads(1)
hypothesis.settings.register_profile(
    "capsnet", max_examples=25, deadline=None, derandomize=True, database=None
)
hypothesis.settings.load_profile("capsnet")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


# Large networks are tested through these smaller ones; the whole ones only where the test says so.
SMALL: dict[str, dict] = {
    "ar_capsnet": {"image_shape": (1, 12, 12)},
    "capsnet": {"image_shape": (1, 18, 20), "channels": 16, "types": 4},
    "da_capsnet": {"image_shape": (1, 18, 20), "channels": 16, "types": 4},
    "cnn_sabour": {"channels": (8, 8, 4), "image_shape": (1, 12, 12)},
    "matrix_capsnet": {"types": (8, 4, 4, 4)},
    "residual_capsnet": {"image_shape": (3, 16, 20), "widths": (8, 16, 16)},
    "vb_capsnet": {"types": (8, 4, 4, 4)},
}


@pytest.fixture
def small_options():
    """Options by model name, for those that are large without them."""
    return SMALL


@pytest.fixture
def small_model():
    """Makes a model by name, in its small form."""
    return lambda name: capsnet.create_model(name, **SMALL.get(name, {}))


# Warnings are errors, but for that about a compiler which is broken.
WARNINGS = ("-W", "error", "-W", "default:capsnet runs without its compiled kernels")
EXPORT = """
import sys
import torch
from functools import cache
from capsnet import saving
from capsnet.cli import main
from capsnet.export import write
torch.set_num_threads(1)
# Tracing is most of the time, and is the same for both.
saving.load, write.build_graph = cache(saving.load), cache(write.build_graph)
for format in ("onnx", "int8"):
    main(["export", "efficient_capsnet.mnist", "--format", format, "--out", f"{sys.argv[1]}/{format}"])
"""


def _run(program, *arguments):
    """In a process of its own, without the shape checks, which would turn a traced batch size into a constant."""
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def run_without_shape_checks():
    """Runs a program in a process of its own."""
    return _run


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A folder with onnx/ and int8/, by `capsnet export`; processes that test side by side share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "exported"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "int8").exists():
            _run(EXPORT, folder)
    return folder
