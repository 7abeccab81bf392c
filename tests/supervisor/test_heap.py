"""What a child allocates lies at the end of the heap, not in a hundred gaps that the parent's imports have left."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes
from pool.supervisor import heap

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def allocated(size):
    return libc.malloc(ctypes.c_size_t(size))

blocks = [allocated(size) for size in (100, 900, 3000, 40_000) for _ in range(40)]
for block in blocks[::2]:
    libc.free(ctypes.c_void_p(block))
if {settled}:
    heap.settle()
print(all(allocated(size) > max(blocks) for size in (100, 900, 3000, 40_000)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another library has another heap")
@pytest.mark.parametrize("settled", [True, False])
def test_gaps_are_filled_before_the_fork(settled: bool) -> None:
    """Without it they are used, or the test would say nothing."""
    program = PROGRAM.format(settled=settled)
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == str(settled)
