"""The report as one self-contained HTML page, and as Markdown with the figures beside it. No script, nothing fetched."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from capsnet.report.figures import Picture
from capsnet.report.table import Table

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; max-width: 68rem; }
body { padding: 1rem; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
.scroll { overflow-x: auto; } .scroll:focus { outline: 2px solid #0072b2; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { padding: 0.3rem 0.7rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { background: #f3f3f3; } td.number { font-variant-numeric: tabular-nums; }
data.ours { font-weight: 600; color: #004b76; }
td:first-child { min-width: 9rem; }
td.missing { color: #555; font-size: 0.8rem; min-width: 15rem; }
code { background: #f3f3f3; overflow-wrap: anywhere; } small { color: #555; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; } figcaption { color: #444; font-size: 0.9rem; }
nav { columns: 2; font-size: 0.9rem; } @media (max-width: 40rem) { nav { columns: 1; } }
"""
TYPES = {".png": "image/png", ".gif": "image/gif"}


@dataclass(frozen=True)
class Report:
    """All that the page shows."""

    summary: Sequence[str]
    mismatches: Sequence[str]
    tables: Sequence[Table]
    pictures: Sequence[Picture]


TITLE = "Efficient-CapsNet: reported and ours"
MISMATCH = "What does not match, and what is missing"


def to_html(report: Report) -> str:
    links = [("mismatches", MISMATCH)]
    links += [(t.key, t.title) for t in report.tables]
    links += [(f"figure-{p.key}", p.title) for p in report.pictures]
    nav = "".join(f'<li><a href="#{key}">{escape(title)}</a></li>' for key, title in links)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # An empty icon: browsers would ask a server for one.
        f'<title>{escape(TITLE)}</title><link rel="icon" href="data:,">',
        f"<style>{STYLE}</style></head><body><main>",
        f"<h1>{escape(TITLE)}</h1>",
        *(f"<p>{escape(text)}</p>" for text in report.summary),
        f'<nav aria-label="contents"><ul>{nav}</ul></nav>',
        f'<section id="mismatches"><h2>{escape(MISMATCH)}</h2><ul>',
        *(f"<li>{escape(text)}</li>" for text in report.mismatches),
        "</ul></section>",
        *(table.html() for table in report.tables),
        *(figure_html(picture) for picture in report.pictures),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def figure_html(picture: Picture) -> str:
    content = base64.b64encode(picture.file.read_bytes()).decode()
    kind = TYPES[picture.file.suffix]
    return (
        f'<section id="figure-{picture.key}"><h2>{escape(picture.title)}</h2><figure>'
        f'<img src="data:{kind};base64,{content}" alt="{escape(picture.alt)}">'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure></section>"
    )


def to_markdown(report: Report, folder: Path) -> str:
    """`folder` is the one the Markdown file is in; figures are linked from there."""
    lines = [f"# {TITLE}", "", *(f"{text}\n" for text in report.summary), f"## {MISMATCH}", ""]
    lines += [f"- {text}" for text in report.mismatches] + [""]
    lines += [table.markdown() for table in report.tables]
    for picture in report.pictures:
        place = picture.file.relative_to(folder).as_posix()
        lines += [f"## {picture.title}", "", f"![{picture.alt}]({place})", "", picture.caption, ""]
    return "\n".join(lines).rstrip() + "\n"
