"""A table as data: cells that know where their numbers come from, or which command would fill them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from capsnet.report.records import Group


@dataclass(frozen=True)
class Cell:
    """Text; `lines` are numbers of ours, each with its source; `command` stands where there is none yet."""

    text: str = ""
    lines: tuple["Number", ...] = ()
    command: str = ""
    numeric: bool = False

    def html(self) -> str:
        if self.command:
            return f'<td class="missing">not computed: <code>{escape(self.command)}</code></td>'
        body = "<br>".join(number.html() for number in self.lines) or escape(self.text)
        return f'<td class="number">{body}</td>' if self.numeric or self.lines else f"<td>{body}</td>"

    def markdown(self) -> str:
        if self.command:
            return f"not computed: `{self.command}`"
        return "<br>".join(number.markdown() for number in self.lines) or self.text.replace("|", "\\|")


@dataclass(frozen=True)
class Number:
    """A number of ours, the note behind it (recipe, seeds), and the files in results/ that it is the mean of."""

    text: str
    note: str = ""
    value: float | None = None
    key: str = ""
    sources: tuple[str, ...] = ()

    def html(self) -> str:
        note = f" <small>{escape(self.note)}</small>" if self.note else ""
        if self.value is None:
            return escape(self.text) + note
        return (
            f'<data class="ours" value="{self.value!r}" data-key="{escape(self.key)}" '
            f'data-sources="{escape(" ".join(self.sources))}">{escape(self.text)}</data>{note}'
        )

    def markdown(self) -> str:
        return f"{self.text} ({self.note})" if self.note else self.text


@dataclass(frozen=True)
class Table:
    """`note` is printed below."""

    key: str
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    after: Sequence[str] = field(default_factory=tuple)

    def html(self) -> str:
        head = "".join(f'<th scope="col">{escape(h)}</th>' for h in self.headings)
        body = "\n".join("<tr>" + "".join(cell.html() for cell in row) + "</tr>" for row in self.rows)
        notes = "".join(f"<p>{escape(text)}</p>" for text in (self.note, *self.after) if text)
        # Scrollable parts must be reachable by keyboard, and then need a name.
        return (
            f'<section id="{self.key}"><h2>{escape(self.title)}</h2>\n'
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(self.title)}">'
            f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>{notes}</section>"
        )

    def markdown(self, folder: Path) -> str:
        lines = [
            f"## {self.title}",
            "",
            "| " + " | ".join(self.headings) + " |",
            "|---" * len(self.headings) + "|",
        ]
        lines += ["| " + " | ".join(cell.markdown() for cell in row) + " |" for row in self.rows]
        for text in (self.note, *self.after):
            lines += ["", text] if text else []
        return "\n".join(lines) + "\n"


def plain(text: object) -> Cell:
    return Cell(str(text))


def number(text: object) -> Cell:
    return Cell(str(text), numeric=True)


def ours(groups: Sequence[Group], command: str, digits: int = 2) -> Cell:
    """Our mean for each recipe, or the command that would fill the cell."""
    if not groups:
        return Cell(command=command)
    return Cell(
        lines=tuple(
            Number(
                group.text(digits),
                f"{group.recipe}, {group.seeds}",
                group.summary["mean"],
                group.key,
                tuple(record["file"] for record in group.records),
            )
            for group in groups
        )
    )
