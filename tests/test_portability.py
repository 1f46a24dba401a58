"""macOS and Windows lack some of what Linux offers; nothing may depend on it."""

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys

from capsnet.files import atomic_write, new_folder

# A Python without what Windows lacks; every module must still import, and a training must run.
WITHOUT = """
import json, os, pkgutil, sys
for name in ("sched_getaffinity", "getloadavg", "O_DIRECTORY"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("fcntl", "resource"):
    sys.modules[name] = None
import capsnet
"""

TRAIN = """
from capsnet.cli import main
main(["train", "mnist", "--limit", "60", "--validation", "10", "--epochs", "1", "--no-reconstruction", "--no-test",
      "--threads", "1", "--out", sys.argv[1], "--json"])
"""

MEASURE = """
from capsnet.machine import cores, load_average
from pathlib import Path
Path.read_text = lambda self, *a: (_ for _ in ()).throw(FileNotFoundError(self))  # no /proc either
from capsnet.machine import peak_memory, processor
print(json.dumps([cores(), load_average(), peak_memory(), processor()]))
"""

IMPORT = """
import importlib, importlib.util
for module in pkgutil.walk_packages(capsnet.__path__, "capsnet."):
    if module.name != "capsnet.__main__":
        importlib.import_module(module.name)
"""


def python(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_imports_without_what_windows_lacks():
    python(IMPORT)


def test_training_runs_without_what_windows_lacks(tmp_path):
    result = json.loads(python(TRAIN, tmp_path / "run"))
    assert result["load"] is None


def test_the_machine_is_described_without_what_windows_lacks():
    cores, load, peak, processor = json.loads(python(MEASURE))
    assert cores >= 1
    assert load is None
    assert peak == 0
    assert "cores" in processor


def test_files_are_flushed_through_handles_that_may_write(tmp_path, monkeypatch):
    flush = os.fsync

    def as_on_windows(handle):
        writable = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        if stat.S_ISREG(os.fstat(handle).st_mode) and not writable:
            raise OSError(errno.EBADF, "Bad file descriptor")
        flush(handle)

    monkeypatch.setattr(os, "fsync", as_on_windows)
    atomic_write(tmp_path / "file", b"content")
    with new_folder(tmp_path / "folder") as folder:
        atomic_write(folder / "file", b"content")
    assert (tmp_path / "folder" / "file").read_bytes() == b"content"
