"""What of the page without a server needs no browser: its runtime is the known one, and the page is the server's own."""

import gzip
import hashlib
import io
import re
import tarfile
from pathlib import Path

import pytest

from capsnet.cli import main
from capsnet.errors import CapsNetError
from capsnet.serve import web

ROOT = Path(__file__).parents[2]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package, known by its checksums, as a folder and as npm packs it."""
    contents = {name: f"content of {name}".encode() for name in web.FILES}
    known = {name: (hashlib.sha256(contents[name]).hexdigest(), web.FILES[name][1]) for name in contents}
    monkeypatch.setattr(web, "FILES", known)
    folder = tmp_path / "an npm package"
    (folder / "dist").mkdir(parents=True)
    with tarfile.open(tmp_path / "packed.tgz", "w:gz") as archive:
        for name, content in contents.items():
            (folder / "dist" / name).write_bytes(content)
            member = tarfile.TarInfo(f"package/dist/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return folder, tmp_path / "packed.tgz"


def test_the_runtime_is_read_from_a_folder_and_from_what_npm_packs(package):
    folder, packed = package
    files = web.read_runtime(packed)
    assert files == web.read_runtime(folder) == web.read_runtime(folder / "dist")
    assert set(files) == {"ort.js", "ort.wasm.gz"}
    assert files["ort.wasm.gz"][:2] == b"\x1f\x8b"


def test_another_version_is_refused(package):
    folder, _ = package
    (folder / "dist" / "ort.wasm.bundle.min.mjs").write_bytes(b"another version")
    with pytest.raises(CapsNetError, match=re.escape(f"get it with npm pack {web.PACKAGE}")):
        web.read_runtime(folder)


ENDLESS = tarfile.TarInfo("x")
ENDLESS.type, ENDLESS.size = tarfile.XHDTYPE, 2**80


@pytest.mark.parametrize(
    "make",
    [
        lambda p: None,
        Path.mkdir,
        lambda p: p.write_bytes(b"no archive"),
        lambda p: p.write_bytes(ENDLESS.tobuf(tarfile.GNU_FORMAT)),
        lambda p: p.write_bytes(gzip.compress(bytes(9000))[:-12] + bytes(12)),
    ],
)
def test_a_place_without_the_runtime_is_one_sentence(tmp_path, make):
    place = tmp_path / "place"
    make(place)
    with pytest.raises(CapsNetError, match=r"There is no ort\.wasm\.bundle\.min\.mjs in "):
        web.read_runtime(place)


@pytest.mark.parametrize("words", [["--format", "web"], ["--runtime", "somewhere"]])
def test_the_format_and_its_runtime_go_together(capsys, tmp_path, words):
    with pytest.raises(SystemExit) as stop:
        main(["export", "efficient_capsnet.mnist", "--out", str(tmp_path / "out"), *words])
    assert stop.value.code == 2
    assert "--format web and --runtime go together" in re.sub(r"\s+", " ", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_make_demo_gets_the_version_that_the_page_is_made_for():
    assert f"ORT := {web.PACKAGE}\n" in (ROOT / "Makefile").read_text()


def test_the_page_is_the_servers_own_but_for_who_computes():
    ours, servers = web.page(), (web.STATIC / "index.html").read_text()
    assert (
        len(set(ours.splitlines()) ^ set(servers.splitlines())) == 3
    )  # the html element twice, and the policy
    assert "connect-src" not in web.POLICY
    assert "default-src 'self'" in web.POLICY
