"""What every test runs under: shapes checked against their annotations, one thread, a fixed seed."""

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
