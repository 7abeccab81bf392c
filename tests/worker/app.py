"""The application whose jobs the worker tests run. `ledger` is a file that gets a line per start and end."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pool


def note(ledger: str, line: str) -> None:
    with open(ledger, "a") as file:
        file.write(line + "\n")


# ---------------------------------------------------------------- plain work


@pool.job
def nothing() -> None:
    pass


@pool.job
def add(left: int, right: int) -> int:
    return left + right


@pool.job
def held(ledger: str, gate: str) -> int:
    """Runs until the file `gate` exists."""
    note(ledger, "start")
    while not os.path.exists(gate):
        time.sleep(0.005)
    note(ledger, "end")
    return os.getpid()


@pool.job
def spoken(words: str) -> None:
    print(words)
    print("to stderr", file=sys.stderr)
    logging.getLogger("app").info("through logging")
    sys.stdout.buffer.write(b"as bytes\n")


@pool.job
def flood(lines: int) -> None:
    for number in range(lines):
        print(f"line {number} " + "x" * 100)


@pool.job
def parent_of(count: int, fail: bool = False) -> None:
    for number in range(count):
        pool.current().enqueue(add, left=number, right=1)
    if fail:
        raise ValueError("after all")


@pool.job
def resumed(ledger: str) -> str:
    state = pool.current().restored
    note(ledger, f"attempt {pool.current().attempt} restored {state}")
    if state is None:
        pool.current().checkpoint({"step": 7})
        pool.current().progress(0.5, "half")
        raise ValueError("interrupted")
    return f"resumed at {state['step']}"


@pool.job(backoff=[0])
def stuck(ledger: str, swallow: bool = False) -> None:
    note(ledger, "start")
    try:
        while True:
            with contextlib.suppress(Exception):
                time.sleep(0.01)
    finally:
        note(ledger, "cleaned up")


@pool.job(backoff=[0])
def busy_inside_our_calls(how: str) -> None:
    """Hardly ever in its own code when the timeout comes."""
    for number in range(10**9):
        if how == "print":
            print(number)
        elif how == "logging":
            logging.getLogger("app").warning("line %d", number)
        else:
            pool.current().checkpoint(number)


@pool.job(backoff=[0])
def telling(ledger: str) -> None:
    """Says how far it is, for ever."""
    note(ledger, "start")
    try:
        while True:
            pool.current().checkpoint(1)
            time.sleep(0.01)
    except BaseException as error:
        note(ledger, type(error).__name__)
        raise


@pool.job
def threaded() -> list[str]:
    """What a thread of a job may and may not do."""
    said: list[str] = []

    def work() -> None:
        said.append(pool.current().type)
        print("from the thread")
        try:
            pool.current().progress(0.5)
        except Exception as error:
            said.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return said


@pool.job
def wrong_children() -> list[str]:
    """Each is refused at the call, and the job goes on."""
    said = []
    for job, payload in ((add, {"left": "two"}), ("no.such.type", {}), (nothing, {"extra": 1})):
        try:
            pool.current().enqueue(job, **payload)
        except pool.InvalidJob as error:
            said.append(type(error).__name__)
    return said


@pool.job
def short(ledger: str, number: int) -> None:
    note(ledger, f"{number} {time.monotonic()}")
    time.sleep(0.005)


@pool.job
def memory(megabytes: int) -> int:
    kept = bytearray(megabytes * 1024 * 1024)
    kept[::4096] = b"x" * len(kept[::4096])
    HOARD.append(kept)
    return os.getpid()


HOARD: list[bytearray] = []


@pool.job
def pid() -> int:
    return os.getpid()


# ---------------------------------------------------------------- bad behaviour


@pool.job(backoff=[0])
def bad(how: str) -> Any:
    return BEHAVIOUR[how]()


def _recurse() -> Any:
    return _recurse()


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def _raise(error: BaseException) -> Any:
    raise error


def _fork_and_come_back() -> str:
    child = os.fork()
    if child == 0:
        return "the child came back"
    return f"status {os.waitpid(child, 0)[1]}"


def _fork_and_exit() -> str:
    child = os.fork()
    if child == 0:
        sys.exit(3)
    return f"code {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"


def _change_everything() -> None:
    os.chdir("/")
    os.umask(0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGURG, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.environ["PATH"] = ""
    sys.stdout = sys.stderr = None  # type: ignore[assignment]
    sys.setrecursionlimit(100)
    signal.set_wakeup_fd(-1)


def _thread() -> None:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def _cycle() -> Any:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


BEHAVIOUR = {
    "exits": lambda: sys.exit(0),
    "interrupts": lambda: _raise(KeyboardInterrupt()),
    "recurses": _recurse,
    "unspeakable": lambda: _raise(Unspeakable()),
    "long text": lambda: _raise(ValueError("x" * 10_000_000)),
    "surrogate text": lambda: _raise(ValueError("half \ud800 and \0")),
    "base exception": lambda: _raise(BaseException("base")),
    "closes descriptors": lambda: os.closerange(3, 4096),
    "changes everything": _change_everything,
    "starts a thread": _thread,
    "forks and comes back": _fork_and_come_back,
    "forks and exits": _fork_and_exit,
    "subprocess": lambda: subprocess.check_output(["/bin/sh", "-c", "kill -s TERM $$; echo survived"]),
    "object": object,
    "set": lambda: {1, 2},
    "bytes": lambda: b"raw",
    "file": lambda: sys.__stdin__,
    "nan": lambda: float("nan"),
    "surrogate": lambda: "\ud800",
    "cycle": _cycle,
    "deep": lambda: _deep(10_000),
    "deeper than readers": lambda: _deep(300),
    "path": lambda: Path("/etc/passwd"),
}


# ---------------------------------------------------------------- async


@pool.job(queue="async")
async def bad_async(how: str) -> Any:
    await asyncio.sleep(0.01)
    return BEHAVIOUR[how]()


@pool.job(queue="async")
async def spoken_async(words: str) -> None:
    print(words)
    await asyncio.sleep(0.05)
    print(words)


@pool.job(queue="async")
async def later(ledger: str, seconds: float) -> str:
    note(ledger, "start")
    await asyncio.sleep(seconds)
    note(ledger, "end")
    return "done"


@pool.job(queue="async")
async def held_async(ledger: str, gate: str) -> None:
    """Runs until the file `gate` exists."""
    note(ledger, "start")
    while not os.path.exists(gate):
        await asyncio.sleep(0.005)


@pool.job(timeout=0.2, max_retries=0)
async def too_late(ledger: str) -> None:
    try:
        await asyncio.sleep(60)
    finally:
        note(ledger, "cleaned up")
