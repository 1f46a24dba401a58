"""Waiting threads spin for a bounded time, unless the user wants something else."""

import os
import subprocess
import sys

import pytest

SHOW = "import os; import capsnet; print(os.environ.get('GOMP_SPINCOUNT'))"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, "1600"),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"GOMP_SPINCOUNT": ""}, ""),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "None"),
    ],
)
def test_spinning_is_bounded_unless_the_user_chose(chosen, expected):
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {name: value for name, value in os.environ.items() if name not in names} | chosen
    done = subprocess.run(
        [sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == expected


def test_it_is_set_before_torch_is_loaded():
    code = "import sys; import capsnet; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
