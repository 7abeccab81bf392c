"""The command line: any words after any verb end in an exit code of ours and in sentences; never in a traceback."""

import contextlib
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main

from pool.__main__ import main
from pool.cli.app import app
from pool.cli.light import VERBS, options_of
from tests.fuzz.nasty import TEXTS, text, value
from tests.fuzz.runner import Attempt
from tests.helpers.full_store import fill
from tests.helpers.stores import Place

CODES = (0, 1, 2, 69, 78)
LONG_RUNNING = (
    "start",
    "serve",
    "demo",
    "top",
    "status",
    "logs",
    "stop",
    "drain",
    "jobs",
    "enqueue",
    "move",
    "restart",
    "reload",
)
PATIENCE_S, LONG_PATIENCE_S = 60.0, 3.0
TASKS = "import pool\n\n@pool.job\ndef nothing(a: int = 0) -> None:\n    pass\n"


@dataclass(frozen=True)
class Verb:
    """Its words and the options it knows: name, and whether a value follows."""

    words: tuple[str, ...]
    options: tuple[tuple[str, bool], ...]


def verbs() -> list[Verb]:
    """Every verb of the program, as the program itself knows them."""
    return [*_heavy(typer.main.get_command(app), ()), *map(_light, VERBS)]


def _heavy(command: Any, words: tuple[str, ...]) -> Iterator[Verb]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            if words or name not in VERBS:
                yield from _heavy(inner, (*words, name))
    else:
        options = [
            (name, not each.is_flag) for each in command.params if hasattr(each, "is_flag") for name in each.opts
        ]
        yield Verb(words, tuple(options))


def _light(name: str) -> Verb:
    options = [(word, action.nargs != 0) for action in options_of(name) for word in action.option_strings]
    return Verb((name,), tuple(options))


@contextlib.contextmanager
def ground(folder: Path) -> Iterator[Attempt]:
    (folder / "tasks.py").write_text(TASKS)
    place = Place("sqlite", f"sqlite:///{folder}/jobs.db")
    ids = fill(place.open()).values()
    place.close()
    known = verbs()
    yield lambda rng: attempt(folder, known, [*ids, *_usual(place, folder)], rng)


def _usual(place: Place, folder: Path) -> list[str]:
    return [
        place.url,
        "default",
        "after",
        "tasks.nothing",
        "tasks",
        str(folder),
        '{"a": 1}',
        "5",
        "1h",
        "failed",
        "pending",
        "shop",
    ]


def attempt(folder: Path, known: list[Verb], usual: list[str], rng: random.Random) -> None:
    words = _words(rng.choice(known), usual, rng)
    code, said = run(folder, words, rng.random() < 0.7)
    told = f"jobpool {' '.join(map(ascii, words))}\nended with {code} and said\n{said[-3000:]}"
    assert code in CODES or (code is None and words[:1] and words[0] in LONG_RUNNING), told
    assert "Traceback (most recent" not in said and "internal error" not in said, told


def _words(verb: Verb, usual: list[str], rng: random.Random) -> list[str]:
    words = list(verb.words)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 4))):
        if verb.options and rng.random() < 0.6:
            name, takes_value = rng.choice(verb.options)
            words.append(name)
            if takes_value and rng.random() < 0.95:
                words.append(_word(usual, rng))
        else:
            words.append(_word(usual, rng))
    if rng.random() < 0.05:
        words.insert(0, _word(usual, rng))
    return [
        word.replace("\0", "")
        .encode("utf-8", "surrogateescape" if _fits(word) else "replace")
        .decode("utf-8", "surrogateescape")
        for word in words
    ]


def _fits(word: str) -> bool:
    """Whether the system can hand it over as an argument."""
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return False
    return True


def _word(usual: list[str], rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(usual)
    return text(rng) if kind < 0.9 else str(rng.choice([*TEXTS, str(value(rng))]))


# ---------------------------------------------------------------- running


def run(folder: Path, words: list[str], has_backend: bool) -> tuple[int | None, str]:
    """Exit code and all output of a process of its own; None when it went on and was ended by us."""
    output = folder / "output"
    pid = os.fork()
    if pid == 0:
        _become_a_command(folder, output, has_backend)
        os._exit(_code_of(words))
    code = _wait(pid, LONG_PATIENCE_S if words[:1] and words[0] in LONG_RUNNING else PATIENCE_S)
    return code, output.read_text(errors="replace")


def _become_a_command(folder: Path, output: Path, has_backend: bool) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    nothing, file = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(nothing, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    os.environ.clear()
    os.environ.update({"HOME": str(folder), "PATH": os.defpath, "XDG_RUNTIME_DIR": str(folder), "COLUMNS": "100"})
    if has_backend:
        os.environ["JOBPOOL_BACKEND__URL"] = f"sqlite:///{folder}/jobs.db"
    os.chdir(folder)


def _code_of(words: list[str]) -> int:
    sys.argv = ["jobpool", *words]
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 99
    except BaseException:
        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _wait(pid: int, seconds: float) -> int | None:
    """Its exit code (minus the signal when one ended it). Its whole session is ended when its time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            _end_group(pid)
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.003)
    _end_group(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
