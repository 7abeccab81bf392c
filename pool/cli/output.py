"""What the command line prints: JSON for programs, aligned columns for pipes, tables with colours on a terminal.

The only place that prints. rich is loaded for terminals only. Stored texts may hold anything, also escape sequences.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from pool.spoken import duration, one_line, size

__all__ = [
    "STYLES", "duration", "is_terminal", "one_line", "printable", "remark", "rich_table", "say", "say_facts", "say_json",
    "say_table", "size", "text_of",
]  # fmt: skip

Row = Sequence[Any]


def say(text: str = "") -> None:
    """A line of the answer, on standard output."""
    print(printable(text))


def remark(text: str) -> None:
    """A line beside the answer (a hint, an error), on standard error."""
    print(printable(text), file=sys.stderr)


def say_json(document: Any) -> None:
    """A document as JSON, readable by people too."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=2)
    print(text)


def say_table(columns: Sequence[str], rows: Iterable[Row], *, title: str = "", empty: str = "none") -> None:
    """Rows under headings. The last column takes what room is left; the others are never cut."""
    cells = [[printable(text_of(value)) for value in row] for row in rows]
    if not cells:
        say(f"{title}: {empty}" if title else empty)
    elif is_terminal():
        _say_rich_table(columns, cells, title)
    else:
        _say_columns(columns, cells, title)


def say_facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Names and values below each other; values that are None are left out."""
    known = [(name, value) for name, value in pairs if value is not None and value != ""]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        say(f"{name:<{width}}  {text_of(value)}")


def is_terminal() -> bool:
    return sys.stdout.isatty()


def printable(text: str) -> str:
    """The text without control characters, which could rewrite the reader's screen; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def text_of(value: Any) -> str:
    """A cell's text: nothing for None, yes and no, numbers with commas."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _say_columns(columns: Sequence[str], cells: list[list[str]], title: str) -> None:
    widths = [max(len(row[n]) for row in [list(columns), *cells]) for n in range(len(columns))]
    if title:
        say(title)
    for row in [[name.upper() for name in columns], *cells]:
        say("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _say_rich_table(columns: Sequence[str], cells: list[list[str]], title: str) -> None:
    from rich.console import Console

    Console(highlight=False).print(rich_table(columns, cells, title))


def rich_table(columns: Sequence[str], cells: Iterable[Sequence[str]], title: str = "") -> Any:
    """A rich table; states are coloured, everything else is plain text (no markup)."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        title=title or None,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for number, name in enumerate(columns):
        is_last = number == len(columns) - 1
        table.add_column(name, no_wrap=not is_last, overflow="ellipsis" if is_last else "fold")
    for row in cells:
        table.add_row(*(Text(printable(cell), style=STYLES.get(cell, "")) for cell in row))
    return table


STYLES = {
    "idle": "green",
    "ready": "green",
    "completed": "green",
    "busy": "cyan",
    "running": "cyan",
    "booting": "yellow",
    "retiring": "yellow",
    "scheduled": "yellow",
    "degraded": "red",
    "parked": "red",
    "failed": "red",
}
