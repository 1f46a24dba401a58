"""Compiling C: kept for the next process, and never the end of anything."""

import contextlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from capsnet.kernels import available, compiled, switch
from capsnet.kernels.compiled import compile_source

SOURCE = "long answer(void) { return 42; }"


def compiler_works() -> bool:
    command = available.compiler() or ["no-such-compiler"]
    arguments = ("-x", "c", "-c", "-o", os.devnull, "-")
    with contextlib.suppress(OSError):
        return (
            subprocess.run([*command, *arguments], input=SOURCE, text=True, capture_output=True).returncode
            == 0
        )
    return False


needs_compiler = pytest.mark.skipif(not compiler_works(), reason="there is no C compiler that works")


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "the cache"))
    monkeypatch.setattr(switch, "_warned", False)
    file = tmp_path / "a source.c"
    file.write_text(SOURCE)
    return file


@pytest.fixture
def runs(monkeypatch):
    """The compiler's command lines from here on."""
    real, seen = subprocess.run, []

    def run(arguments, **options):
        if "--version" not in arguments:
            seen.append(arguments)
        return real(arguments, **options)

    monkeypatch.setattr(compiled.subprocess, "run", run)
    return seen


def compiler_that(tmp_path: Path, monkeypatch, does: str) -> None:
    """Puts a shell script in the compiler's place; `$REAL` is the compiler."""
    script = tmp_path / "compiler"
    script.write_text(f"#!/bin/sh\nREAL='{shutil.which((available.compiler() or ['cc'])[0])}'\n{does}\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))


def kept(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "the cache/capsnet/kernels").glob("*"))


@needs_compiler
def test_the_second_time_nothing_is_compiled(source, runs, tmp_path):
    assert compile_source(source).answer() == 42
    assert len(runs) == 2
    assert compile_source(source).answer() == 42
    assert len(runs) == 2
    assert len(kept(tmp_path)) == 1


@needs_compiler
def test_another_source_flag_compiler_or_processor_is_another_library(source, runs, monkeypatch):
    compile_source(source)
    compile_source(source, "-DOTHER")
    monkeypatch.setattr(available, "compiler_version", lambda command: "newer")
    compile_source(source)
    monkeypatch.setattr(available, "processor", lambda: "another")
    compile_source(source)
    source.write_text(SOURCE.replace("42", "43"))
    assert compile_source(source).answer() == 43
    assert len(runs) == 2 * 5


@needs_compiler
def test_the_folder_is_the_users_alone(source, tmp_path):
    compile_source(source)
    folder = tmp_path / "the cache/capsnet/kernels"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o700 for file in kept(tmp_path))


@needs_compiler
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_or_library_that_others_can_write_is_not_trusted(source, runs, tmp_path, mode):
    compile_source(source)
    folder = tmp_path / "the cache/capsnet/kernels"
    folder.chmod(mode)
    assert compile_source(source).answer() == 42
    folder.chmod(0o700)
    kept(tmp_path)[0].chmod(mode)
    assert compile_source(source).answer() == 42
    assert len(runs) == 3 * 2


@needs_compiler
def test_a_damaged_library_is_made_anew(source, tmp_path):
    compile_source(source)
    kept(tmp_path)[0].unlink()
    file = (
        tmp_path
        / "the cache/capsnet/kernels"
        / compiled._name(available.compiler(), source, compiled._VARIANTS[0])
    )
    file.write_bytes(b"")
    file.chmod(0o700)
    assert compile_source(source).answer() == 42
    assert file.stat().st_size > 0


@needs_compiler
def test_a_cache_that_cannot_be_written_is_done_without(source, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    assert compile_source(source).answer() == 42
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert compile_source(source).answer() == 42


@needs_compiler
def test_a_cache_that_nothing_may_be_run_from_is_done_without(source, tmp_path, monkeypatch):
    real = compiled.ctypes.CDLL

    def mounted_noexec(path):
        if "the cache" in path:
            raise OSError("failed to map segment from shared object")
        return real(path)

    monkeypatch.setattr(compiled.ctypes, "CDLL", mounted_noexec)
    assert compile_source(source).answer() == 42
    assert kept(tmp_path) == []


@needs_compiler
@pytest.mark.parametrize("refused", ["-march=native", "-fopenmp"])
def test_a_compiler_without_an_option_goes_without_it(source, runs, tmp_path, monkeypatch, refused):
    compiler_that(
        tmp_path, monkeypatch, f'case "$*" in *{refused}*) echo no {refused}; exit 1;; esac; exec $REAL "$@"'
    )
    assert compile_source(source).answer() == 42
    assert refused not in runs[-2]
    other = {"-march=native", "-fopenmp"} - {refused}
    assert other <= set(runs[-2])
    before = len(runs)
    compile_source(source)
    assert len(runs) == before


@pytest.mark.skipif(os.name != "posix", reason="a shell script as the compiler")
def test_a_broken_compiler_is_one_warning_with_its_reason(source, tmp_path, monkeypatch):
    compiler_that(tmp_path, monkeypatch, "echo 'out of order' >&2; exit 1")
    with pytest.warns(switch.KernelsWarning, match="out of order"):
        assert compile_source(source) is None
    assert compile_source(source) is None  # without another warning


@pytest.mark.parametrize("command", ["no-such-compiler", "'unclosed", ""])
def test_without_a_compiler_nothing_is_said(source, monkeypatch, command):
    monkeypatch.setenv("CC", command)
    monkeypatch.setenv("PATH", "")
    assert compile_source(source) is None
