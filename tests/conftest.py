"""What every test runs under: shapes checked against their annotations, one thread, a fixed seed."""

import hypothesis
import pytest
import torch
from jaxtyping import install_import_hook

# Must come before the first import of these packages: the hook rewrites them as they are loaded.
install_import_hook(
    ["capsnet.functional", "capsnet.layers", "capsnet.models", "capsnet.data"], "beartype.beartype"
)

torch.set_num_threads(1)
hypothesis.settings.register_profile(
    "capsnet", max_examples=25, deadline=None, derandomize=True, database=None
)
hypothesis.settings.load_profile("capsnet")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
