"""Scripts can be run from their folder."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("folder", ["experiments", "benchmarks"])
def test_no_script_hides_a_module_of_python(folder):
    """A script's folder comes first on the path: queue.py in it would be what `import queue` finds, in torch too."""
    names = {path.stem for path in (ROOT / folder).glob("*.py")}
    assert names
    assert not names & sys.stdlib_module_names
