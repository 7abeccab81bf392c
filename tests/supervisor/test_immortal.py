"""What the parent has loaded is used by its children without being counted, and so without being copied."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HEAD = """
import gc, json, os, re, sys, weakref
from pool.supervisor import immortal, packing
"""
COUNTED = """
import json.encoder as module

class Kind:
    attribute = "some text, once".upper()

def function():
    return ("a constant " "that nobody else has", 987654321.5)

def inner():
    def innermost():
        return "another one, further in"
    return innermost

parts = [module, Kind, Kind.__dict__["attribute"], function, function.__code__, function.__code__.co_consts,
         function.__code__.co_consts[1][1], inner.__code__.co_consts[1].co_consts[1], module.__dict__]
immortal.make_all(gc.get_objects())
before = [sys.getrefcount(part) for part in parts]
more = [list(parts) for _ in range(10)]
after = [sys.getrefcount(part) for part in parts]

class Later:
    pass

later = Later()
seen = weakref.ref(later)
del later
print(json.dumps([before == after, before == len(before) * [sys.getrefcount(None)], seen() is None]))
"""
COPIED = r"""
import argparse, ast, asyncio, decimal, email.message, http.client, inspect, logging.config, typing, unittest

def used():
    for _ in range(3):
        for name, module in list(sys.modules.items()):
            for value in list(vars(module).values()):
                str(type(value))
                getattr(value, "__name__", None), getattr(value, "__dict__", None)

def own_pages():
    text = open("/proc/self/smaps_rollup").read()
    return sum(int(kib) for kib in re.findall(r"Private_Dirty: +(\d+)", text)) // 4

used()
if {made}:
    immortal.make_all(gc.get_objects())
gc.freeze()
gc.disable()
if os.fork() == 0:
    before = own_pages()
    used()
    print(own_pages() - before, flush=True)
    os._exit(0)
os.wait()
"""
PACKED = """
from pathlib import Path
from tempfile import NamedTemporaryFile

def outer(n):
    def inner(m):
        return n + m
    return [inner(each) for each in range(3)], (lambda: n)()

def made(n):
    def closure():
        return n
    return closure

def hung_on():
    return "somebody hears of its code's end"

def known_again():
    return "somebody has its code to compare with"

def running():
    yield running.__code__ is sys._getframe().f_code
    yield running.__code__ is sys._getframe().f_code

owner = weakref.ref(hung_on.__code__)
kept = known_again.__code__
runs = running()
next(runs)
first, second = made(1), made(2)
for _ in range(20):
    outer(5)
def places():
    return [*map(id, [outer.__code__, outer.__code__.co_consts[1], first.__code__])]

before = places()
with NamedTemporaryFile("w") as file:
    file.write("__main__ outer outer.<locals>.inner made.<locals>.closure nobody hung_on known_again running\\nno.such.module nor_this\\n")
    file.flush()
    packing._LIST = Path(file.name)
    packing.pack(gc.get_objects())
    immortal.make_all(gc.get_objects())
now = places()
between = sys.getsizeof(outer.__code__) + sys.getsizeof(outer.__code__.co_consts[1])
print(json.dumps([
    [one != other for one, other in zip(before, now)],
    now == sorted(now) and now[-1] - now[0] < between + 32,
    [outer(5) for _ in range(20)][-1],
    [first(), second(), made(3)(), first.__code__ is second.__code__ is made(3).__code__],
    [owner() is hung_on.__code__, kept is known_again.__code__, next(runs)],
]))
"""
WATCHED = """
before = id(json.dumps.__code__)
sys.setprofile(lambda *event: None)
packing.pack(gc.get_objects())
sys.setprofile(None)
first = id(json.dumps.__code__)
packing.pack(gc.get_objects())
print(json.dumps([before == first, before == id(json.dumps.__code__)]))
"""
EXTRA = """
import ctypes

api, before = ctypes.pythonapi, id(json.dumps.__code__)
index = api.PyUnstable_Eval_RequestCodeExtraIndex(None)
api.PyUnstable_Code_SetExtra(ctypes.py_object(json.dumps.__code__), index, ctypes.c_void_p(1))
packing.pack(gc.get_objects())
print(json.dumps(before == id(json.dumps.__code__)))
"""
UNKNOWN = """
from pathlib import Path
from tempfile import NamedTemporaryFile

before = id(json.dumps.__code__)
with NamedTemporaryFile("w") as file:
    packing._LIST = Path(file.name)
    packing.pack(gc.get_objects())
    file.write("no.such.module nor_this\\n")
    file.flush()
    packing.pack(gc.get_objects())
print(json.dumps(before == id(json.dumps.__code__)))
"""
DOORS = """
from pool.worker import timeouts
from pool.worker.timeouts import Interrupts, enter_user_code, wait_interruptibly

before = id(Interrupts.begin.__code__)
packing.pack(gc.get_objects())
print(json.dumps([
    id(Interrupts.begin.__code__) != before,
    timeouts.DOOR is enter_user_code.__code__,
    timeouts.WAIT is wait_interruptibly.__code__,
]))
"""
LISTED = """
from importlib import import_module
from pathlib import Path

listed = {name for name in packing.read_list(packing._LIST.read_text()) if name[0].startswith("pool.")}
for module in {module for module, _ in listed}:
    import_module(module)
print(json.dumps([len(listed), len(listed - {name for name, _, _ in packing.referring(gc.get_objects())})]))
"""


def pythons() -> list[str]:
    """This one, and those beside it that can do it."""
    others = [path for version in ("3.12", "3.13") for path in _installed(version)]
    return [sys.executable, *others]


def _installed(version: str) -> list[str]:
    found = sorted(Path("/usr/local/bin").glob(f"python{version}")) or sorted(Path("/usr/bin").glob(f"python{version}"))
    found = found or sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return [str(path) for path in found[:1]]


def told(python: str, program: str) -> Any:
    run = subprocess.run([python, "-c", HEAD + program], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def can(python: str) -> bool:
    return bool(told(python, "print(json.dumps(immortal.is_possible()))"))


@pytest.fixture(params=pythons(), ids=lambda path: re.sub(r"\W+", "-", path).strip("-"))
def python(request: pytest.FixtureRequest) -> str:
    path = str(request.param)
    if not can(path):
        pytest.skip("this Python has no immortal objects")
    return path


def test_it_is_done_just_where_the_version_is_known() -> None:
    for path in pythons():
        version = told(path, "print(json.dumps(sys.version_info[:2]))")
        assert can(path) == (version in ([3, 12], [3, 13]))


def test_counts_stand_still_and_what_comes_later_is_freed(python: str) -> None:
    assert told(python, COUNTED) == [True, True, True]


def test_a_child_that_uses_what_was_there_copies_few_of_its_pages(python: str) -> None:
    """Without it many, or the test would say nothing."""
    counted, immortal = (told(python, COPIED.replace("{made}", str(made))) for made in (False, True))
    assert counted > 300
    assert immortal < counted / 3, (counted, immortal)


def test_packed_code_does_what_it_did(python: str) -> None:
    is_moved, is_together, answer, closures, has_stayed = told(python, PACKED)
    assert (is_moved, is_together) == ([True, True, True], True)
    assert (answer, closures) == ([[5, 6, 7], 5], [1, 2, 3, True])
    assert has_stayed == [True, True, True]


def test_code_stays_where_it_is_while_somebody_profiles(python: str) -> None:
    assert told(python, WATCHED) == [True, False]


def test_code_that_a_debugger_has_hung_something_on_stays_where_it_is(python: str) -> None:
    assert told(python, EXTRA) is True


def test_a_list_of_what_is_not_there_moves_nothing(python: str) -> None:
    assert told(python, UNKNOWN) is True


def test_time_limits_know_the_way_into_user_code_afterwards(python: str) -> None:
    assert told(python, DOORS) == [True, True, True]


def test_the_list_of_what_is_packed_is_of_this_code() -> None:
    """If not: `python -m tests.bench packed`."""
    known, gone = told(sys.executable, LISTED)
    assert known > 300
    assert gone < known / 10
