import subprocess
import sys
from pathlib import Path

import pytest
import torch

from capsnet import create_model
from capsnet.evaluate.cost import count_operations
from capsnet.functional.routing import kernels
from capsnet.layers import ConvCapsules


@pytest.fixture
def fresh():
    """Forgets what has been compiled, before and after."""
    kernels.load_kernels.cache_clear()
    yield
    kernels.load_kernels.cache_clear()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("compiler", ["false", "no-such-compiler", "echo", "", "'"])
def test_without_a_compiler_that_works_the_votes_are_stored_with_the_same_results(compiler, monkeypatch):
    layer = ConvCapsules(2, 3).double()
    inputs = torch.randn(2, 2, 16, 5, 5).double(), torch.rand(2, 2, 5, 5).double()
    want = layer(*inputs)
    kernels.load_kernels.cache_clear()
    monkeypatch.setenv("CC", compiler)
    assert kernels.load_kernels(torch.float64) is None
    assert not kernels.usable(*inputs)
    for one, other in zip(layer(*inputs), want, strict=True):
        assert torch.allclose(one, other, atol=1e-10, rtol=0)


def test_only_plain_tensors_of_one_known_type_are_read():
    single, double = torch.zeros(2), torch.zeros(2).double()
    assert not kernels.usable(single, double)
    assert not kernels.usable(single.half())
    assert not kernels.usable(torch.zeros(2, device="meta"))
    with torch.autocast("cpu"):
        assert not kernels.usable(single)


def test_operations_are_counted_as_without_kernels(monkeypatch):
    model = create_model("matrix_capsnet", types=(8, 4, 4, 4))
    counted = count_operations(model)
    monkeypatch.setattr("capsnet.layers.conv_capsules.usable", lambda *_: False)
    assert counted == count_operations(model)


def test_nothing_is_compiled_at_import():
    code = (
        "import capsnet.models; from capsnet.functional.routing.kernels import load_kernels; "
        "assert load_kernels.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no list of loaded libraries")
def test_no_second_openmp_library_is_loaded():
    code = (
        "import re, torch; from capsnet.functional.routing.kernels import load_kernels; "
        "loaded = lambda: set(re.findall(r'\\S*omp\\S*\\.so\\S*', open('/proc/self/maps').read())); "
        "before = loaded(); assert load_kernels(torch.float32); assert loaded() == before, loaded()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
