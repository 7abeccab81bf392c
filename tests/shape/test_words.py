"""The words of the README agree with the code."""

import re
from pathlib import Path

from pool.jobs.lifecycle import MOVES, Status

README = (Path(__file__).parents[2] / "README.md").read_text()


def rows_of(heading: str) -> dict[str, str]:
    """First cell → last cell of the table under a heading."""
    section = README.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")
    ]
    return {row[0].strip("`"): row[-1] for row in cells[2:]}


def test_the_state_table_is_the_table_of_moves() -> None:
    said = {
        status: {move.strip() for move in moves.split(",") if move.strip()}
        for status, moves in rows_of("Where a job rests").items()
    }
    meant = {str(status): {name for name, (sources, _) in MOVES.items() if status in sources} for status in Status}
    assert said == meant


def test_the_two_commands_are_those_that_ci_and_newcomers_run() -> None:
    ci = (Path(__file__).parents[2] / ".ci" / "run").read_text()
    assert "-m tests" in ci
    assert re.search(r"pip install -q \. && \.venv/bin/jobpool demo", README)
    assert re.search(r"pip install -q -e '\.\[dev\]' && \.venv/bin/python -m tests", README)
