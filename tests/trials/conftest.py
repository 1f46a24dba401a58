"""The slice of MNIST that the tests of training use."""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parents[1] / "train" / "conftest.py"))
