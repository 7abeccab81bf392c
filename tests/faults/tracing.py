"""A fault in one system call of one step: a forked process waits at a gate, strace takes hold of it, then it acts."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.stores import in_child

NOBODY_S = 60


@dataclass(frozen=True)
class Traced:
    """What became of the step. `was_hit`: the fault was injected. `answer` is None when the process died."""

    was_hit: bool
    answer: Any


def require_strace() -> None:
    if shutil.which("strace") is None:
        if os.environ.get("CI"):
            pytest.fail("no strace on this machine, and CI never skips")
        pytest.skip("no strace on this machine")


def act_under(fault: str, folder: Path, prepare: Callable[[], Any], act: Callable[[Any], Any]) -> Traced:
    """Run `act(prepare())` in a process of its own; from between the two on, strace injects `fault`, its own word
    ("pwrite64:error=EIO:when=3")."""
    require_strace()
    go_out, go_in = os.pipe()
    ready_out, ready_in = os.pipe()

    def work() -> Any:
        prepared = prepare()
        os.write(ready_in, b"!")
        os.read(go_out, 1)
        answer = act(prepared)
        return answer

    child = in_child(work)
    os.read(ready_out, 1)
    trace = folder / "trace"
    tracer = _attach(child.pid, fault, trace)
    os.write(go_in, b"!")
    try:
        answer = child.result()
    except AssertionError as error:
        if f"wait status {signal.SIGKILL:#x}" not in str(error):
            raise
        answer = None
    tracer.wait(NOBODY_S)
    for fd in (go_out, go_in, ready_out, ready_in):
        os.close(fd)
    return Traced("INJECTED" in trace.read_text() or answer is None, answer)


def _attach(pid: int, fault: str, trace: Path) -> subprocess.Popen[str]:
    call = fault.partition(":")[0]
    words = ["strace", "-f", "-e", f"trace={call}", "-e", f"inject={fault}", "-o", str(trace), "-p", str(pid)]
    tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    with tracer.stderr:
        while "attached" not in (line := tracer.stderr.readline()):
            assert line, "strace could not attach"
    return tracer
