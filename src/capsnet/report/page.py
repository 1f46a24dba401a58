"""The report as one self-contained HTML page, and as Markdown with the figures beside it. No script, nothing fetched."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Protocol

from capsnet.files import atomic_write
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


class Part(Protocol):
    """A section of the page: a table, a figure, a list."""

    @property
    def key(self) -> str: ...
    @property
    def title(self) -> str: ...
    def html(self) -> str: ...
    def markdown(self, folder: Path) -> str: ...


@dataclass(frozen=True)
class Notes:
    """Sentences, as a list."""

    key: str
    title: str
    lines: Sequence[str]

    def html(self) -> str:
        items = "".join(f"<li>{escape(text)}</li>\n" for text in self.lines)
        return f'<section id="{self.key}"><h2>{escape(self.title)}</h2><ul>\n{items}</ul></section>'

    def markdown(self, folder: Path) -> str:
        return "\n".join([f"## {self.title}", "", *(f"- {text}" for text in self.lines)]) + "\n"


@dataclass(frozen=True)
class Picture:
    """A figure. `alt` tells people who cannot see it what it shows."""

    name: str
    title: str
    file: Path
    alt: str
    caption: str

    @property
    def key(self) -> str:
        """A table may have the same name."""
        return f"figure-{self.name}"

    def html(self) -> str:
        content = base64.b64encode(self.file.read_bytes()).decode()
        kind = TYPES[self.file.suffix]
        return (
            f'<section id="{self.key}"><h2>{escape(self.title)}</h2><figure>'
            f'<img src="data:{kind};base64,{content}" alt="{escape(self.alt)}">'
            f"<figcaption>{escape(self.caption)}</figcaption></figure></section>"
        )

    def markdown(self, folder: Path) -> str:
        place = self.file.relative_to(folder).as_posix()
        return "\n".join([f"## {self.title}", "", f"![{self.alt}]({place})", "", self.caption]) + "\n"


@dataclass(frozen=True)
class Report:
    """All that the page shows, in order."""

    title: str
    summary: Sequence[str]
    parts: Sequence[Part]

    @property
    def tables(self) -> list[Table]:
        return [part for part in self.parts if isinstance(part, Table)]

    @property
    def pictures(self) -> list[Picture]:
        return [part for part in self.parts if isinstance(part, Picture)]


def write_report(report: Report, folder: Path) -> None:
    """Write index.html and report.md into `folder`, which the figures are already in."""
    atomic_write(folder / "index.html", to_html(report).encode())
    atomic_write(folder / "report.md", to_markdown(report, folder).encode())


def to_html(report: Report) -> str:
    nav = "".join(f'<li><a href="#{part.key}">{escape(part.title)}</a></li>' for part in report.parts)
    pieces = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # An empty icon: browsers would ask a server for one.
        f'<title>{escape(report.title)}</title><link rel="icon" href="data:,">',
        f"<style>{STYLE}</style></head><body><main>",
        f"<h1>{escape(report.title)}</h1>",
        *(f"<p>{escape(text)}</p>" for text in report.summary),
        f'<nav aria-label="contents"><ul>{nav}</ul></nav>',
        *(part.html() for part in report.parts),
        "</main></body></html>",
    ]
    return "\n".join(pieces) + "\n"


def to_markdown(report: Report, folder: Path) -> str:
    """`folder` is the one the Markdown file is in; figures are linked from there."""
    pieces = [f"# {report.title}\n", *(f"{text}\n" for text in report.summary)]
    pieces += [part.markdown(folder) for part in report.parts]
    return "\n".join(pieces)
