"""Files are replaced whole, and what the disk refuses is one clear sentence."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from capsnet.errors import CapsNetError
from capsnet.files import atomic_write, read_json, replacing, write_json


def test_atomic_write_makes_folders_and_replaces(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file"
    atomic_write(file, b"old")
    atomic_write(file, b"new")
    assert file.read_bytes() == b"new"
    assert os.listdir(file.parent) == ["file"]


def test_a_failed_block_keeps_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    file = tmp_path / "file"
    atomic_write(file, b"old")
    with pytest.raises(KeyboardInterrupt), replacing(file) as temporary:  # noqa: PT012
        temporary.write_bytes(b"half of the n")
        raise KeyboardInterrupt
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_errors_that_are_not_the_disks_pass_through(tmp_path: Path) -> None:
    with pytest.raises(ConnectionResetError), replacing(tmp_path / "file"):
        raise ConnectionResetError(104, "Connection reset by peer")


def test_a_file_larger_than_allowed_keeps_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    atomic_write(file, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(
            CapsNetError, match=r"Could not write '.*file': File too large; what was there before"
        ):
            atomic_write(file, bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_without_permission_keeps_the_old_file() -> None:
    # Not tmp_path, which only its owner may enter: another user shall see the folder but not write in it.
    folder = Path(tempfile.mkdtemp())
    file = folder / "file"
    atomic_write(file, b"old")
    folder.chmod(0o555)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)
        with pytest.raises(CapsNetError, match="Permission denied; what was there before is kept"):
            atomic_write(file, b"new")
    finally:
        os.seteuid(user)
    assert file.read_bytes() == b"old"
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("mount", "remount", "reason"),
    [
        ("size=64k", "true", "No space left on device"),
        ("size=1m", "mount -o remount,ro {}", "Read-only file system"),
    ],
)
def test_a_full_or_read_only_disk_keeps_the_old_file(
    tmp_path: Path, mount: str, remount: str, reason: str
) -> None:
    program = (
        "import sys; from capsnet.files import atomic_write\n"
        "try: atomic_write(sys.argv[1] + '/file', bytes(200_000))\n"
        "except ValueError as error: print(type(error).__name__, error)\n"
        "print(open(sys.argv[1] + '/file').read())"
    )
    (tmp_path / "try.py").write_text(program)
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o {mount} none {disk} || exit 77\n"
        f"printf old > {disk}/file; {remount.format(disk)}\n"
        f"{sys.executable} {tmp_path}/try.py {disk}"
    )
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare, to mount a small disk")
    source = str(Path(__file__).parents[1] / "src")
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
        check=False,
    )
    if done.returncode in (1, 77):
        pytest.skip(f"may not mount a small disk: {done.stderr}")
    error, content = done.stdout.splitlines()
    assert error.startswith(f"CapsNetError Could not write '{disk}/file': {reason};")
    assert content == "old"


def test_json_round_trip_is_strict_and_keeps_order(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    write_json(file, {"b": [1, 2.5, None], "a": "é"})
    assert read_json(file) == {"b": [1, 2.5, None], "a": "é"}
    assert file.read_text().index('"b"') < file.read_text().index('"a"')
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(file, float("nan"))
    assert read_json(file)["a"] == "é"


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe\x00", b"[" * 100_000])
def test_damaged_json_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    with pytest.raises(CapsNetError, match=r"x\.json' is damaged or not JSON"):
        read_json(file)


def test_missing_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(CapsNetError, match=r"There is no file '.*x\.json'"):
        read_json(tmp_path / "x.json")
    with pytest.raises(CapsNetError, match="Could not read"):
        read_json(tmp_path)
