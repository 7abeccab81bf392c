"""The Lua steps, one file each. `--! include a b` names the parts (scripts/parts/) that a step is built on."""

import re
from functools import cache
from hashlib import sha1
from importlib.resources import files

_INCLUDE = re.compile(r"^--! include (.+)$", re.MULTILINE)


class Step:
    """A step as the server gets it: the whole text, and its name by digest."""

    def __init__(self, name: str) -> None:
        self.name = name
        folder = files(__name__)
        text = (folder / f"{name}.lua").read_text()
        included = _INCLUDE.search(text)
        parts = included[1].split() if included else []
        pieces = [(folder / "parts" / f"{part}.lua").read_text() for part in parts]
        self.text = "\n".join([*pieces, text]).encode()
        self.digest = sha1(self.text, usedforsecurity=False).hexdigest().encode()


@cache
def step(name: str) -> Step:
    """The step of this name, read once per process."""
    return Step(name)
