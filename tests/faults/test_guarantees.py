"""docs/guarantees.md and the table of cases name tests; each of them exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "docs/guarantees.md", ROOT / "tests/faults/README.md")
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_named_test_exists(page: Path) -> None:
    named = set(_NAMED.findall(page.read_text()))
    assert len(named) > 20
    for file, test in sorted(named):
        path = ROOT / file
        assert path.exists(), file
        assert re.search(rf"^\s*def {test}\b", path.read_text(), re.MULTILINE), f"no {test} in {file}"


def test_every_promise_names_what_it_rests_on_and_what_attacks_it() -> None:
    promises, _, _ = PAGES[0].read_text().partition("## What is not promised")
    parts = re.split(r"^\*\*", promises, flags=re.MULTILINE)[1:]
    assert len(parts) > 15
    for part in parts:
        assert "Attacked by: `tests/" in part, part.partition("**")[0]
        assert "\nRests on: " in part, part.partition("**")[0]


def test_the_table_names_all_public_faults_and_where_they_can_happen() -> None:
    public = PAGES[1].read_text().partition("## The 53 public faults")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in public.splitlines() if line.startswith("| ") and "| store |" not in line]
    assert len(rows) == 53
    assert {row[1] for row in rows} <= {"both", "SQLite", "Redis", "none"}
