"""Configuration files: each gives a configuration, or sentences and exit code 78; never a traceback."""

import contextlib
import io
import os
import random
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pool.__main__ import main
from pool.config import Loaded, load_config
from pool.errors import ConfigError
from tests.fuzz.nasty import TEXTS, spoilt, text, value
from tests.fuzz.runner import Attempt

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"
KEY = re.compile(r"^((?:# )*)([a-z_0-9]+) = (.*?)(  # .*)?$")
CHECKED_SHARE = 0.3
VARIABLES = (
    "JOBPOOL_WORKERS__COUNT", "JOBPOOL_GROUPS", "JOBPOOL_JOBS__BACKOFF", "JOBPOOL_WORKERS__QUEUES", "JOBPOOL_X__Y",
    "JOBPOOL_WORKERS", "JOBPOOL_BACKEND__URL", "JOBPOOL_TYPES", "JOBPOOL_LOG__LEVEL__X", "JOBPOOL___", "JOBPOOL_WEB__",
)  # fmt: skip
LONGEST_SENTENCE = 2_000


@contextlib.contextmanager
def ground(folder: Path) -> Iterator[Attempt]:
    yield lambda rng: attempt(folder, rng)


def attempt(folder: Path, rng: random.Random) -> None:
    path = folder / "jobpool.toml"
    raw = _file(rng)
    path.write_bytes(raw)
    with _shown(raw), _environment(folder, rng):
        loaded = loads(path)
        if rng.random() < CHECKED_SHARE:
            _check_agrees(path, folder, loaded)


def loads(path: Path) -> Loaded | None:
    """The configuration; None when it was refused in sentences."""
    try:
        return load_config(file=str(path))
    except ConfigError as error:
        lines = str(error).splitlines()
        assert lines and all(0 < len(line) <= LONGEST_SENTENCE for line in lines), error
        assert "Traceback" not in str(error)
        return None


def _check_agrees(path: Path, folder: Path, loaded: Loaded | None) -> None:
    """`jobpool check` comes to the same end, in words."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(folder):
        code = main(["check", "--config", str(path)])
    said = out.getvalue() + err.getvalue()
    assert code in ((0, 69, 78) if loaded else (78,)), (code, said)
    assert "Traceback (most" not in said and "internal error" not in said, said


@contextlib.contextmanager
def _shown(raw: bytes) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(raw.decode(errors="backslashreplace"))
        raise


# ---------------------------------------------------------------- files


def _file(rng: random.Random) -> bytes:
    """A file with one to three wrong values, mostly; else one with lines in disorder, or with bytes that are hurt."""
    lines = EXAMPLE.read_text().splitlines()
    kind = rng.random()
    if kind < 0.15:
        return spoilt(rng, "\n".join(lines).encode())
    if kind < 0.3:
        return "\n".join(_line(line, rng) for line in rng.sample(lines, k=rng.randrange(len(lines)))).encode()
    tree = tomllib.loads("\n".join(map(_uncommented, lines)))
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change_one(tree, rng)
    return "\n".join(f"{toml(key)} = {toml(each)}" for key, each in tree.items()).encode("utf-8", "replace")


def _uncommented(line: str) -> str:
    bare = line.removeprefix("# ")
    return bare if bare.startswith("[[") or KEY.match(bare) else line


def _change_one(tree: dict[str, Any], rng: random.Random) -> None:
    """Another value for one key somewhere, a key more, or one less."""
    node: Any = tree
    while True:
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        inner = node[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.15:
            break
        node = inner
    match rng.randrange(8):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[text(rng)] = value(rng)
        case 2 if isinstance(inner, list):
            inner.extend(inner[:1])
        case _:
            node[key] = value(rng)


def _line(line: str, rng: random.Random) -> str:
    """Mostly as it stands; now and then another value, or a table that was commented out."""
    found = KEY.match(line)
    if found and rng.random() < 0.03:
        return f"{found[2]} = {toml(value(rng))}"
    return _uncommented(line) if rng.random() < 0.3 else line


def toml(given: Any) -> str:
    """A value as TOML writes it; texts that TOML cannot hold are written all the same."""
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(each)}" for key, each in given.items()) + "}"
    if isinstance(given, list):
        return "[" + ", ".join(map(toml, given)) + "]"
    if isinstance(given, str):
        body = given.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").encode("utf-8", "replace").decode()
        return f'"{body}"'
    return repr(given)


@contextlib.contextmanager
def _environment(folder: Path, rng: random.Random) -> Iterator[None]:
    """Ours alone; in it now and then one of our variables with a value that may not fit."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update({"HOME": str(folder), "PATH": os.defpath, "XDG_RUNTIME_DIR": str(folder)})
    if rng.random() < 0.2:
        value = rng.choice([*TEXTS, '{"count": 3}', "[1, 2", '[{"name": 3}]']).replace("\0", "")
        os.environ[rng.choice(VARIABLES)] = value.encode("utf-8", "replace").decode()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
