"""Winograd's convolutions are the direct ones, for every shape of map and of tile."""

import ctypes
import platform
from functools import lru_cache

import pytest
import torch
from torch.nn import functional as F

from capsnet.kernels import winograd
from capsnet.kernels.compiled import compile_source

pytestmark = pytest.mark.skipif(winograd._load(1, torch.float32) is None, reason="no C compiler")
CHANNELS_LAST = torch.channels_last
# As this processor has it and, where that is AVX-512, as one without it would.
FORMS: list[tuple[str, ...]] = [(), ("-mno-avx512f",)] if platform.machine() == "x86_64" else [()]


@lru_cache
def compiled(stride: int, *flags: str) -> ctypes.CDLL:
    """The functions, compiled with further flags."""
    library = compile_source(winograd._SOURCE, f"-DSTRIDE={stride}", *flags)
    assert library is not None
    library.room.restype = ctypes.c_long
    return library


@pytest.mark.parametrize(
    ("stride", "dtype"), [(1, torch.float32), (2, torch.float32), (1, torch.bfloat16)], ids=str
)
@pytest.mark.parametrize("size", [(3, 3), (8, 7), (22, 22), (5, 30)])
@pytest.mark.parametrize(("channels", "outputs"), [(32, 32), (32, 64), (64, 128), (96, 160)])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_equals_float64(
    stride: int,
    dtype: torch.dtype,
    size: tuple[int, int],
    channels: int,
    outputs: int,
    threads: int,
    form: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bfloat16 = dtype == torch.bfloat16
    monkeypatch.setattr(
        winograd, "_load", lambda stride, _: compiled(stride, *form, *["-DBFLOAT16"] * bfloat16)
    )
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    torch.manual_seed(0)
    maps = torch.randn(5, channels, *size).relu().to(dtype, memory_format=CHANNELS_LAST)
    kernel, bias = torch.randn(outputs, channels, 3, 3), torch.randn(outputs)
    leaves = [t.double().requires_grad_() for t in (maps, kernel, bias)]
    expected = F.conv2d(*leaves, stride)
    gradient = torch.randn(expected.shape).to(dtype)
    expected = [expected, *torch.autograd.grad(expected, leaves, gradient.double())]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert winograd.takes(maps, kernel, (stride, stride))
        got = [
            winograd.convolve(maps, kernel, bias, stride),
            *winograd.convolve_backward(gradient, maps, kernel, stride),
        ]
    finally:
        torch.set_num_threads(before)
    # Maps in bfloat16 are rounded to 8 bits, where tiles overlap several times; of sums nothing is.
    of_maps = 3e-3 if bfloat16 else 1e-5
    for a, b, most in zip(got, expected, (of_maps, of_maps, 1e-5, 1e-5), strict=True):
        assert a.shape == b.shape
        assert (a.double() - b).norm() <= most * b.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_autocast_changes_nothing(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    maps = torch.randn(2, 32, 9, 9).to(dtype, memory_format=CHANNELS_LAST)
    kernel, bias = torch.randn(32, 32, 3, 3), torch.randn(32)

    def compute() -> list[torch.Tensor]:
        result = winograd.convolve(maps, kernel, bias, 1)
        return [result, *winograd.convolve_backward(result, maps, kernel, 1)]

    expected = compute()
    with torch.autocast("cpu", torch.bfloat16):
        got = compute()
    for a, b in zip(got, expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("default", [torch.float64, torch.bfloat16])
def test_the_default_number_type_and_the_gradient_s_layout_change_nothing(default: torch.dtype) -> None:
    maps = torch.randn(2, 32, 8, 8).to(memory_format=CHANNELS_LAST)
    kernel, bias = torch.randn(32, 32, 3, 3), torch.randn(32)
    sliced = torch.randn(2, 64, 6, 6).to(memory_format=CHANNELS_LAST)[:, :32]
    expected = (
        winograd.convolve(maps, kernel, bias, 1),
        winograd.convolve_backward(sliced.contiguous(memory_format=CHANNELS_LAST), maps, kernel, 1),
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        found = winograd.convolve(maps, kernel, bias, 1), winograd.convolve_backward(sliced, maps, kernel, 1)
    finally:
        torch.set_default_dtype(before)
    assert torch.equal(found[0], expected[0])
    assert all(map(torch.equal, found[1], expected[1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_nan_is_not_hidden(dtype: torch.dtype) -> None:
    maps = torch.zeros(1, 32, 5, 5, dtype=dtype).contiguous(memory_format=CHANNELS_LAST)
    # of all bits one, which rounding must not turn into a number
    maps.view(torch.int32 if dtype == torch.float32 else torch.int16)[0, 3, 2, 2] = -1
    assert winograd.convolve(maps, torch.ones(32, 32, 3, 3), torch.zeros(32), 1).isnan().all()


def test_where_bfloat16_has_matrix_instructions_it_is_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    maps, kernel = torch.zeros(1, 32, 5, 5, dtype=torch.bfloat16), torch.zeros(32, 32, 3, 3)
    for supported in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda supported=supported: supported)
        assert winograd.takes(maps, kernel, (1, 1)) is not supported


def test_what_it_cannot_do_is_left_alone() -> None:
    maps, kernel = torch.zeros(1, 32, 5, 5), torch.zeros(32, 32, 3, 3)
    assert winograd.takes(maps, kernel, (1, 1))
    assert not winograd.takes(maps, kernel, (3, 3))
    assert not winograd.takes(maps, kernel, (1, 2))
    assert not winograd.takes(maps.bfloat16(), kernel.bfloat16(), (1, 1))
    assert not winograd.takes(maps.bfloat16(), kernel, (2, 2))
    assert not winograd.takes(maps, torch.zeros(32, 32, 5, 5), (1, 1))
    assert not winograd.takes(torch.zeros(1, 16, 5, 5), torch.zeros(32, 16, 3, 3), (1, 1))
    assert not winograd.takes(maps, torch.zeros(48, 32, 3, 3), (1, 1))
