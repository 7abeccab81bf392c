"""Ctrl-Z in the middle of a transaction must not leave the store locked behind a stopped terminal."""

import signal
import subprocess
import sys

import pytest

from pool.cli.store import Unstoppable
from tests.helpers.until import until

STOPPED_WITHIN = """
import os, signal, sys, threading, time
from pool.cli.store import Unstoppable

class Store:
    def write(self):
        os.kill(os.getpid(), signal.SIGTSTP)
        time.sleep(0.2)
        print("written", flush=True)

if "threads" in sys.argv:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
Unstoppable(Store()).write()
print("continued", flush=True)
"""


@pytest.mark.parametrize("company", ["alone", "threads"])
def test_the_stop_signal_waits_until_the_call_is_over(company: str) -> None:
    """With other threads too, such as that of a progress bar: the kernel may give the signal to any of them."""
    child = subprocess.Popen(
        [sys.executable, "-c", STOPPED_WITHIN, company],
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,  # the kernel does not stop an orphaned group
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "written\n"
        until(lambda: state_of(child.pid) == "T", "the process is stopped after its call")
        child.send_signal(signal.SIGCONT)
        assert child.stdout.readline() == "continued\n"
        assert child.wait(timeout=30) == 0
    finally:
        child.kill()
        child.communicate()


def state_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(") ")[2][0]


def test_it_is_the_terminals_again_afterwards() -> None:
    class Store:
        def write(self) -> object:
            return signal.getsignal(signal.SIGTSTP)

    before = signal.getsignal(signal.SIGTSTP)
    assert Unstoppable(Store()).write() is not before
    assert signal.getsignal(signal.SIGTSTP) is before
