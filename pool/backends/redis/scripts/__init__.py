"""The Lua steps, one file each. A line `--! include a b` stands for the text of these parts (scripts/parts/)."""

import re
from functools import cache
from hashlib import sha1
from pathlib import Path

_FOLDER = Path(__file__).parent
_INCLUDE = re.compile(r"^--! include (.+)$", re.MULTILINE)


class Step:
    """A step: its whole text, and on the wire the call by its digest or, when the server does not know it, by text."""

    def __init__(self, name: str, text: str = "") -> None:
        self.name = name
        text = text or _text(name)
        self.text = _INCLUDE.sub(_parts, text).encode()
        digest = sha1(self.text, usedforsecurity=False).hexdigest().encode()
        self.by_digest = b"$7\r\nEVALSHA\r\n$40\r\n%b\r\n" % digest
        self.by_text = b"$4\r\nEVAL\r\n$%d\r\n%b\r\n" % (len(self.text), self.text)


def _parts(include: re.Match[str]) -> str:
    return "\n".join(_text(f"parts/{part}") for part in include[1].split())


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")


@cache
def step(name: str) -> Step:
    """The step of this name, read once per process."""
    return Step(name)


def read_steps_of_workers() -> None:
    """Before the fork: to read them costs each worker half a megabyte."""
    for name in ("listen", "exchange", "exchange_many"):
        step(name)
