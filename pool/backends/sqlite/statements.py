"""SQL lives in its own files; a statement is asked for by the name in its `-- name:` line."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


def script(file_name: str) -> str:
    """A whole file of SQL."""
    return (_FOLDER / file_name).read_text(encoding="utf-8")


@cache
def statements(file_name: str) -> dict[str, str]:
    """The statements of a file by name. What stands before the first name is the file's header."""
    parts = script(file_name).split("-- name: ")[1:]
    return {name.strip(): text.strip().removesuffix(";") for name, _, text in (p.partition("\n") for p in parts)}
