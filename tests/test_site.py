"""The site: it is built without a warning, loads nothing from elsewhere, and has the generated pages."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Builds it, which also fails on a broken link or anchor; with a torch that cannot be imported, as none is needed."""
    place = tmp_path_factory.mktemp("site")
    (place / "torch").mkdir()
    (place / "torch" / "__init__.py").write_text("raise AssertionError('the site needs no torch')\n")
    words = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(place / "built"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(place), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "built"


class Loaded(HTMLParser):
    """Collects what a browser loads with a page: scripts, styles, pictures, frames, not links to follow."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.found.append(values.get("src") or "")
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(values.get("href") or "")


def test_the_pages_load_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        reader = Loaded()
        reader.feed(page.read_text(encoding="utf-8"))
        assert [url for url in reader.found if url.startswith(("http", "//"))] == [], page
    for style in site.rglob("*.css"):
        urls = re.findall(r"url\(['\"]?(https?:|//)", style.read_text(encoding="utf-8"))
        assert urls == [], style


def test_the_api_has_docstrings_and_shapes(site):
    page = (site / "api" / "functional.html").read_text(encoding="utf-8")
    text = re.sub(r"<[^>]+>", "", page).replace("&#34;", '"').replace("&quot;", '"')
    assert "self_attention_routing" in text
    assert 'votes: Float[Tensor, "b j i d"]' in text
    assert "one matrix for each pair of capsules" in text


def test_the_reference_has_the_help_of_every_command(site):
    page = (site / "commands.html").read_text(encoding="utf-8")
    for command in ("train", "data check", "analyze routing", "convert"):
        assert f"usage: capsnet {command} " in page, command


def test_formulas_are_drawn(site):
    page = (site / "capsules.html").read_text(encoding="utf-8")
    assert page.count("<math") >= 4
    assert "\\frac" not in page


def test_links_between_files_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    for page in pages:
        links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == [], page
