"""The parent's memory as the children inherit it: shared with each until one of them writes to a page."""

import ctypes
import gc
import sys

from pool.supervisor import immortal, packing

_ABOVE_ANY_GAP, _LARGEST, _SMALLEST = 120 * 1024, 64 * 1024, 24  # bytes
_KEPT_BY_SIZE = 1040  # up to here the library keeps freed blocks for the very next of that size (in steps of 16)
_MOST_IN_ALL = 2 * 1024 * 1024  # should another library be in its place, which orders blocks otherwise
_clear_caches = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache  # before Python 3.13


def settle() -> None:
    """Parent, once, right before the first fork: leave nothing to do that each child would do in its own copy."""
    # What is here now is shared with every child for good: neither counts nor the collector shall touch, and so copy, its pages.
    if immortal.is_possible():
        objects = gc.get_objects()
        packing.pack(objects)
        immortal.make_all(objects)
        del objects
    else:
        _clear_caches()  # else each name that a child looks up drives out one of ours, whose count is written
    # The garbage among it (less than 1 MB) stays: to look for it would take a tenth of the start.
    gc.freeze()
    gc.collect()  # of nothing: it gives back spare objects
    if hasattr(libc := ctypes.CDLL(None), "gnu_get_libc_version"):
        _fill_gaps(libc)


def _fill_gaps(libc: ctypes.CDLL) -> None:
    """So that what a child allocates lies close together, at the end of the heap. What fills them is never given back.

    Imports leave hundreds of gaps between blocks that stay. A child that allocates into them writes a page for nearly
    each, and more for the neighbours in the lists of gaps: together they have 0.2 MB, but cost each child 0.8 MB.
    """
    malloc, free = libc.malloc, libc.free
    malloc.argtypes, malloc.restype, free.argtypes = [ctypes.c_size_t], ctypes.c_void_p, [ctypes.c_void_p]
    end = malloc(_ABOVE_ANY_GAP) or 0  # 0: there is no memory, and nothing to fill
    free(end)
    size, left = _LARGEST, _MOST_IN_ALL
    while size >= _SMALLEST and left > 0:
        block = malloc(size)
        if block is not None and block < end:
            left -= size
        else:
            free(block)
            size = max(size * 3 // 4, _KEPT_BY_SIZE) if size > _KEPT_BY_SIZE else size - 16
