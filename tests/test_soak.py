"""The soak's own parts: the same seed spoils a file in the same way, and a part ends by itself and keeps its counts."""

import gzip
import io
import json
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from pathlib import Path
from random import Random

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from soak import mutate  # noqa: E402
from soak.common import bounds, forked  # noqa: E402
from soak.fuzz import DONE, slug  # noqa: E402


def archive():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("a", b"one" * 30)
        made.writestr("b", b"two" * 30)
    return file.getvalue()


def tar():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        for name in "ab":
            member = tarfile.TarInfo(name)
            member.size = 600
            made.addfile(member, io.BytesIO(bytes(600)))
    return file.getvalue()


FILES = {
    "bytes": (mutate.mutate_bytes, bytes(range(200))),
    "gzip": (mutate.mutate_packed, gzip.compress(bytes(200), mtime=0)),
    "json": (
        lambda content, random: mutate.mutate_json(content.decode(), random),
        b'{"a": [1, {"b": "c"}], "d": 2}',
    ),
    "tar": (mutate.mutate_tar, gzip.compress(tar(), mtime=0)),
    "zip": (mutate.mutate_zip, archive()),
}


@pytest.mark.parametrize("kind", ["bytes", "json"])
def test_a_seed_spoils_a_file_always_in_the_same_way(kind):
    spoil, content = FILES[kind]
    made = [spoil(content, Random(seed)) for seed in range(200)]
    assert made == [spoil(content, Random(seed)) for seed in range(200)]
    assert len(set(made)) > 30


def test_spoilt_content_is_behind_right_checksums():
    spoil, content = FILES["gzip"]
    whole = 0
    for seed in range(100):
        try:
            gzip.decompress(spoil(content, Random(seed)))
            whole += 1
        except (OSError, EOFError, zlib.error):
            continue
    assert 60 < whole < 100
    spoil, content = FILES["zip"]
    opened = 0
    for seed in range(100):
        try:
            opened += zipfile.ZipFile(io.BytesIO(spoil(content, Random(seed)))).testzip() is None
        except Exception:
            continue
    assert opened > 50
    spoil, content = FILES["tar"]
    listed = 0
    for seed in range(100):
        try:
            with tarfile.open(fileobj=io.BytesIO(spoil(content, Random(seed)))) as made:
                listed += len(made.getnames()) > 0
        except Exception:
            continue
    assert listed > 50


def test_a_count_is_divided_by_shares_and_without_one_the_time():
    shares = {"a": (1.0, 3.0), "b": (1.0, 1.0)}
    now = time.monotonic()
    divided = dict(bounds(100, 40, shares))
    assert {name: bound.most for name, bound in divided.items()} == {"a": 30, "b": 10}
    assert divided["a"].reached(30)
    assert not divided["a"].reached(29)
    assert all(99 < bound.end - now < 101 for bound in divided.values())
    timed = dict(bounds(100, None, shares))
    assert all(49 < bound.end - now < 51 for bound in timed.values())
    assert not timed["a"].reached(10**9)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's timers")
@pytest.mark.parametrize("descendants", [False, True])
def test_a_copy_is_killed_at_its_moment_or_gives_its_exit_code(tmp_path, descendants):
    assert forked(lambda: None, 60, descendants=descendants) == 0
    assert forked(lambda: sys.exit(3)) == 3
    began = time.monotonic()
    assert forked(lambda: time.sleep(60), 0.05, descendants=descendants) == -9
    assert time.monotonic() - began < 30


def test_what_libfuzzer_says_is_read():
    said = "#8\tINITED cov: 91 ft: 91 corp: 1/36b exec/s: 0 rss: 200Mb\n#90\tDONE   cov: 119 ft: 148 corp: 37/2k lim: 99"
    assert DONE.findall(said) == [("8", "91", "91", "1"), ("90", "119", "148", "37")]
    assert slug("weights: config.json") == "weights-config-json"


@pytest.mark.slow
def test_kills_end_after_so_many_and_find_nothing(tmp_path):
    command = [
        sys.executable,
        "-m",
        "soak",
        "kills",
        "--count",
        "12",
        "--minutes",
        "10",
        "--out",
        str(tmp_path),
    ]
    subprocess.run(command, cwd=ROOT, check=True, timeout=900, capture_output=True)
    counts = json.loads((tmp_path / "kills.json").read_text())
    assert counts["sum"]["kills"] == 12
    assert counts["sum"]["differing"] == counts["sum"]["unreadable"] == 0
    assert all(work["kills"] > 0 for work in counts["work"].values())


@pytest.mark.slow
def test_fuzzing_ends_by_itself_and_finds_nothing(tmp_path):
    pytest.importorskip("atheris", reason="make fuzz installs it")
    words = ["idx", "http", "--minutes", "0.5", "--corpus", str(tmp_path / "corpus"), "--out", str(tmp_path)]
    subprocess.run(
        [sys.executable, "-m", "soak.fuzz", *words], cwd=ROOT, check=True, timeout=600, capture_output=True
    )
    counts = json.loads((tmp_path / "fuzz.json").read_text())
    assert all(target["inputs"] > 10 for target in counts["targets"].values())
    assert all(counts["sum"][key] == 0 for key in ("tracebacks", "crashes", "hangs"))


@pytest.mark.slow
@pytest.mark.parametrize(("part", "zeros"), [("requests", ("server_errors", "tracebacks")), ("files", ())])
def test_a_part_ends_by_itself_and_finds_nothing(tmp_path, part, zeros):
    command = [sys.executable, "-m", "soak", part, "--minutes", "0.2", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300, capture_output=True)
    counts = json.loads((tmp_path / f"{part}.json").read_text())
    assert all(counts[key] == 0 for key in zeros)
    if part == "files":
        assert counts["sum"]["files"] > 500
        assert all(counts["sum"][key] == 0 for key in ("tracebacks", "crashes", "hangs"))
