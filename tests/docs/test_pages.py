"""Every page: its links lead somewhere, its blocks are sound, its commands exist."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from pool.config import load_config
from pool.jobs.lifecycle import MOVES
from tests.docs.pages import PAGES, ROOT, Block, all_blocks, blocks_of, name_of, spoken_commands
from tests.docs.vocabulary import verbs, wrong_words

LINK = re.compile(r"\]\(([^)\s]+)\)")
LANGUAGES = {
    "python",
    "sh",
    "toml",
    "text",
    "console",
    "mermaid",
    "ini",
    "yaml",
    "json",
    "php",
    "http",
    "dockerfile",
    "sql",
    "",
    "nginx",
    "ruby",
}
of_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def anchors_of(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@of_page
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for target in LINK.findall(page.read_text()):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors_of(file)):
            broken.append(target)
    assert not broken


@of_page
def test_every_command_and_option_that_a_page_names_exists(page: Path) -> None:
    known = verbs()
    assert [wrong for command in spoken_commands(page) for wrong in wrong_words(command, known)] == []


@of_page
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    spans = re.findall(r"`((?:pool|tests|docs|systemd|\.ci)/[\w./@-]+)(?:::\w+)?`", page.read_text())
    made_by_tests = ("tests/output",)
    assert [span for span in spans if not (ROOT / span).exists() and not span.startswith(made_by_tests)] == []


@of_page
def test_every_block_says_its_language(page: Path) -> None:
    assert [block.where for block in blocks_of(page) if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("block", all_blocks("python"), ids=lambda block: block.where)
def test_python_of_a_page_compiles(block: Block) -> None:
    compile(block.text, block.where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


@pytest.mark.parametrize("block", all_blocks("sh"), ids=lambda block: block.where)
def test_shell_of_a_page_is_shell(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", all_blocks("toml"), ids=lambda block: block.where)
def test_configuration_of_a_page_is_one_that_jobpool_takes(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "page.toml"
    file.write_text(block.text.replace('sha256 = "…"', f'sha256 = "{"0" * 64}"'))
    load_config(file=str(file), environ={"HOME": str(tmp_path)})


def test_the_picture_of_a_jobs_life_has_exactly_the_legal_moves() -> None:
    picture = next(b.text for b in blocks_of(ROOT / "docs/architecture.md") if "pending --> running" in b.text)
    arrows = re.findall(r"^ *(\w+) --> (\w+): ([a-z ,]+)", picture, re.MULTILINE)
    drawn = {
        (source, target, move.strip())
        for source, target, moves in arrows
        for move in moves.split(",")
        if move.strip() in MOVES
    }
    meant = {(str(source), str(target), move) for move, (sources, target) in MOVES.items() for source in sources}
    assert drawn == meant


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("jobpool status --json", 0),
        ("jobpool dead retry ID --rate 5", 0),
        ("jobpool stauts", 1),
        ("jobpool status --jsno", 1),
        ("jobpool dead retry --rte 5 --all", 1),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(said: str, wrong: int) -> None:
    assert len(wrong_words(said, verbs())) == wrong
