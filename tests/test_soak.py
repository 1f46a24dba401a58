"""The soak's own parts: the same seed spoils a file in the same way, and a part ends by itself and keeps its counts."""

import gzip
import io
import json
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from random import Random

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from soak import mutate  # noqa: E402


def archive():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("a", b"one" * 30)
        made.writestr("b", b"two" * 30)
    return file.getvalue()


FILES = {
    "bytes": (mutate.mutate_bytes, bytes(range(200))),
    "gzip": (mutate.mutate_packed, gzip.compress(bytes(200), mtime=0)),
    "json": (
        lambda content, random: mutate.mutate_json(content.decode(), random),
        b'{"a": [1, {"b": "c"}], "d": 2}',
    ),
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
