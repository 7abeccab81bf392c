"""The code that children run, laid side by side in the parent before the first fork.

Python keeps the state of its specialised bytecode inside the code, so that each child owns a copy of whatever page has code
that it runs. Where Python puts it, that is a page for each function or two; side by side it is ten functions a page. Which
functions these are says `packed.txt`, which `python -m tests.bench packed` makes. Names in it that are not found are passed
over, and what is missing there stays where it is: the list changes what a child costs and nothing else.
"""

import ctypes
import sys
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

_LIST = Path(__file__).with_name("packed.txt")
_Word = ctypes.c_uint64
_WORD_BYTES = ctypes.sizeof(_Word)
_ALIGNED_TO = 16
_FIRST_ITEM_AT = tuple.__basicsize__
_OURS = 3  # references to code while it is looked at here

Name = tuple[str, str]
"""Module and qualified name."""


class Found(NamedTuple):
    """What is listed, and was found."""

    number: int  # in the list
    code: CodeType
    places: set[int]  # addresses of the words that refer to it


def pack(objects: Sequence[object]) -> None:
    """Move what is listed, given all that the collector knows. To be called before objects become immortal, for it goes by
    how many refer to what.

    The copies are whole, specialised state included. What they refer to they share with the originals, which are never freed.
    Code stays where it is if somebody besides functions and other code refers to it: a running frame, or one who will know it
    again by its identity. And so does all of it while somebody traces or profiles this process.
    """
    if not _is_watched():
        _move([found for found in _found(objects) if _is_movable(found)])


def _found(objects: Sequence[object]) -> list[Found]:
    """In the order of the list."""
    order = {name: number for number, name in enumerate(read_list(_LIST.read_text()))}
    found: dict[int, Found] = {}
    for name, code, place in referring(objects, {module for module, _ in order}):
        if name in order:  # to keep all for a moment would enlarge the parent, and so every child, by 3 MB for good
            found.setdefault(id(code), Found(order[name], code, set())).places.add(place)
    return sorted(found.values(), key=lambda it: it.number)


def read_list(text: str) -> list[Name]:
    """Each line is a module and names in it."""
    return [(module, name) for module, *names in map(str.split, text.splitlines()) for name in names]


def referring(objects: Sequence[object], modules: set[str] | None = None) -> Iterator[tuple[Name, CodeType, int]]:
    """Each function among these objects that is of these modules, or of any, and each that is defined within one: its name,
    its code, and the address of a word that refers to the code. The same may come more than once."""
    code_at = _place_of_code()
    for function in objects:
        if type(function) is FunctionType and (modules is None or function.__module__ in modules):
            module = function.__module__
            code = function.__code__
            yield (module, function.__qualname__), code, id(function) + code_at
            for name, inner, place in _within(code):
                yield (module, name), inner, place


def _within(code: CodeType) -> Iterator[tuple[str, CodeType, int]]:
    constants = code.co_consts
    for number, constant in enumerate(constants):
        if type(constant) is CodeType:
            yield constant.co_qualname, constant, id(constants) + _FIRST_ITEM_AT + number * _WORD_BYTES
            yield from _within(constant)


def _place_of_code() -> int:
    """Where in a function the word is that refers to its code (bytes)."""
    words = (_Word * (FunctionType.__basicsize__ // _WORD_BYTES)).from_address(id(pack))
    return list(words).index(id(pack.__code__)) * _WORD_BYTES


def _is_watched() -> bool:
    """Whether somebody writes into code what must not be copied."""
    tools = map(sys.monitoring.get_tool, range(6))  # type: ignore[attr-defined]  # from Python 3.12 on, as all of this
    return bool(sys.gettrace() or sys.getprofile() or any(tools))


def _is_movable(found: Found) -> bool:
    """Whether these places are all that refer to it, and nobody has hung something of his own on it."""
    code = found.code
    units = _Word.from_address(id(code) + object.__basicsize__).value  # `co_code` would make a copy, and keep it
    whole = CodeType.__basicsize__ + units * CodeType.__itemsize__
    is_bare = sys.getsizeof(code) == (whole + _WORD_BYTES - 1) // _WORD_BYTES * _WORD_BYTES
    return is_bare and not weakref.getweakrefcount(code) and sys.getrefcount(code) == len(found.places) + _OURS


def _move(all_found: Sequence[Found]) -> None:
    sizes = [(sys.getsizeof(code) + _ALIGNED_TO - 1) // _ALIGNED_TO * _ALIGNED_TO for _, code, _ in all_found]
    at = _room(sum(sizes))
    if not at:  # there is no memory: all stays where it is
        return
    for (_, code, places), size in zip(all_found, sizes, strict=True):
        ctypes.memmove(at, id(code), sys.getsizeof(code))
        for place in places:
            _Word.from_address(place).value = at
        at += size


def _room(size: int) -> int:
    """An address; never given back, for code runs there until the very end."""
    allocate = ctypes.pythonapi.PyMem_RawMalloc
    allocate.argtypes, allocate.restype = [ctypes.c_size_t], ctypes.c_void_p
    return int(allocate(size) or 0)
