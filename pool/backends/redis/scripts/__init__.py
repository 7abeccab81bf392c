"""The Lua steps, one file each. A line `--! include a b` stands for the text of these parts (scripts/parts/)."""

import re
from functools import cache
from hashlib import sha1
from importlib.resources import files

_INCLUDE = re.compile(r"^--! include (.+)$", re.MULTILINE)


class Step:
    """A step as the server gets it: the whole text, and its name by digest."""

    def __init__(self, name: str) -> None:
        self.name = name
        text = (files(__name__) / f"{name}.lua").read_text()
        self.text = _INCLUDE.sub(_parts, text).encode()
        self.digest = sha1(self.text, usedforsecurity=False).hexdigest().encode()


def _parts(include: re.Match[str]) -> str:
    folder = files(__name__) / "parts"
    return "\n".join((folder / f"{part}.lua").read_text() for part in include[1].split())


@cache
def step(name: str) -> Step:
    """The step of this name, read once per process."""
    return Step(name)
