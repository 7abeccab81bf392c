"""Objects that nobody counts any more: whoever uses one leaves its page as it is, and so shared with the parent.

From Python 3.12 on an object can be immortal, as None is: its reference count stands still, and it is never freed. That is
for objects which live as long as the process anyway. It is done once, before the first fork, to all that is there.
"""

import ctypes
import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FunctionType

# An object begins with its count. How an immortal one looks differs between versions, so only those that we have tested.
_KNOWN_VERSIONS = ((3, 12), (3, 13))
_Count = ctypes.c_uint32  # the lower half of the word: immortal or not is all there
_WHOLE_MEMORY = 1 << 46


def is_possible() -> bool:
    """Whether this Python has immortal objects of a make that we know."""
    return (
        sys.implementation.name == "cpython"
        and sys.version_info[:2] in _KNOWN_VERSIONS
        and sys.byteorder == "little"
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and not sys.abiflags  # neither a build for debugging nor one without the global lock: they count otherwise
    )


def make_all(objects: Sequence[object]) -> None:
    """Make these immortal, all that the collector knows, and what they refer to: what is here now, but for some that only C
    code knows. Only where `is_possible`.

    It takes 60 ms, most of it to visit 400,000 references.
    """
    _number_types()
    for some in (
        objects,
        gc.get_referents(*objects),
        *_insides(o.__code__ for o in objects if type(o) is FunctionType),
    ):
        _make_immortal(some)


def _make_immortal(objects: Iterable[object]) -> None:
    counts = (_Count * _WHOLE_MEMORY).from_address(0)
    immortal = _Count.from_address(id(None)).value
    for address in map(id, objects):
        counts[address // 4] = immortal


def _insides(codes: Iterable[CodeType]) -> Iterator[list[object]]:
    """What code refers to, which the collector does not know: it needs not, for there are no cycles."""
    codes = list(codes)
    while codes:
        constants = [constant for code in codes for constant in code.co_consts]
        yield [part for code in codes for part in (code.co_consts, code.co_names)]
        yield constants
        codes = [constant for constant in constants if type(constant) is CodeType]


def _number_types() -> None:
    """A type gets a number when something is first looked up in it, and that is written into it."""
    kinds = {object: None}
    while kinds:
        kind, _ = kinds.popitem()
        type.__getattribute__(kind, "__init__")
        kinds.update(dict.fromkeys(type.__subclasses__(kind)))
