"""The tables of the pages under docs/, each between two marks, so that one command fills them anew."""

import os
import platform
import re
import time
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def fill(page: str, name: str, text: str) -> None:
    """Put the text where the page says that this command makes it."""
    file = DOCS / page
    mark = re.escape(name)
    pattern = rf"(<!-- made by python -m tests\.bench {mark} -->\n).*?(\n<!-- end of {mark} -->)"
    filled, count = re.subn(pattern, lambda found: f"{found[1]}{text}{found[2]}", file.read_text(), flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"docs/{page} has no marks for {name}")
    file.write_text(filled)


def circumstances(runs: int) -> str:
    """A sentence above a table: how many runs, when, on which Python, and how busy the machine was before."""
    load, processors = os.getloadavg()[1], os.cpu_count()
    often = f"Medians of {runs} runs" if runs > 1 else "One run"
    python = ".".join(platform.python_version_tuple()[:2])
    return f"{often} on {time.strftime('%Y-%m-%d')}, Python {python}, {processors} processors, load before {load:.1f}."


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Markdown."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)])
