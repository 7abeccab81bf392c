"""The Lua steps, one file each. A line `--! include a b` stands for the text of these parts (scripts/parts/)."""

import re
from functools import cache
from hashlib import sha1
from importlib.resources import files

_INCLUDE = re.compile(r"^--! include (.+)$", re.MULTILINE)


class Step:
    """A step: its whole text, and on the wire the call by its digest or, when the server does not know it, by text."""

    def __init__(self, name: str, text: str = "") -> None:
        self.name = name
        text = text or (files(__name__) / f"{name}.lua").read_text()
        self.text = _INCLUDE.sub(_parts, text).encode()
        digest = sha1(self.text, usedforsecurity=False).hexdigest().encode()
        self.by_digest = b"$7\r\nEVALSHA\r\n$40\r\n%b\r\n" % digest
        self.by_text = b"$4\r\nEVAL\r\n$%d\r\n%b\r\n" % (len(self.text), self.text)


def _parts(include: re.Match[str]) -> str:
    folder = files(__name__) / "parts"
    return "\n".join((folder / f"{part}.lua").read_text() for part in include[1].split())


@cache
def step(name: str) -> Step:
    """The step of this name, read once per process."""
    return Step(name)
