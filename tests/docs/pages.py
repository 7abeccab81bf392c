"""The pages that users read, and the blocks of code in them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "systemd").glob("*.md")]
)
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^ *```\s*$", re.MULTILINE | re.DOTALL)
_TYPED = re.compile(r"(?:^\s*|/bin/|\$\(|&& |-- |exec jobs )(jobpool [^#|;&)<>]+)")
_FILE_NAME = re.compile(r"^(?:#|//|;) ([\w./-]+\.(?:py|toml|sh|php|service|conf))(?=\s|$)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what is said of it after the language, and its text.

    Tags say where it is run: docs/contributing.md has the list.
    """

    page: Path
    line: int
    language: str
    tags: frozenset[str]
    text: str

    @property
    def file_name(self) -> str:
        """The file whose content it is, by its first line: `# tasks.py`."""
        found = _FILE_NAME.match(self.text)
        return found[1] if found else ""

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    """The page's fenced blocks in order."""
    text = page.read_text()
    return [_block(page, text, found) for found in _FENCE.finditer(text)]


def all_blocks(language: str) -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page) if block.language == language]


def spoken_commands(page: Path) -> list[str]:
    """Every `jobpool …` of the page: in code spans, in shell blocks, in indented blocks."""
    text = page.read_text()
    spans = [span for span in re.findall(r"`([^`\n]+)`", _FENCE.sub("", text)) if span.startswith("jobpool ")]
    shell = [block.text for block in blocks_of(page) if block.language in ("sh", "ini", "dockerfile")]
    indented = [line for line in _FENCE.sub("", text).splitlines() if line.startswith("    ")]
    lines = "\n".join([*shell, *indented]).replace("\\\n", " ").splitlines()
    typed = [found[1] for line in lines if (found := _TYPED.search(line))]
    return [command.strip() for command in [*spans, *typed]]


def _block(page: Path, text: str, found: re.Match[str]) -> Block:
    language, _, tags = found["info"].strip().partition(" ")
    indent = len(found["indent"])
    body = "\n".join(line[indent:] for line in found["text"].splitlines())
    return Block(page, text[: found.start()].count("\n") + 1, language, frozenset(tags.split()), body)
