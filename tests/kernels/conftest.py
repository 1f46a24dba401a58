"""Tests of accelerators are skipped where these are switched off; those of the switch and of the compiler need none."""

import pytest

from capsnet import kernels

ALWAYS = ("test_acceleration.py", "test_compiled.py")


@pytest.fixture(autouse=True)
def _only_with_kernels(request: pytest.FixtureRequest) -> None:
    if request.path.name not in ALWAYS and not kernels.enabled():
        pytest.skip("CAPSNET_KERNELS=off")
