"""The jobs that chaos runs, with a ledger of their own: what is written here happened, whatever the store says.

Each run takes the lock of its job (a file lock, which the kernel frees when the process is gone) and says so when
another run still has it. Read as text into each pool's application directory; stands alone.
"""

import fcntl
import functools
import json
import os
import time
import uuid

import pool

STUBBORN = {"max_retries": 100, "max_kills": 100}  # nothing that chaos does may use a job up


class Ledger:
    """One line per event, each appended in one write."""

    def __init__(self):
        self.run = uuid.uuid4().hex
        self.job = pool.current().id
        self.attempt = pool.current().attempt
        self.lock = os.open(
            os.path.join(os.environ["CHAOS_LOCKS"], self.job), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )

    def note(self, what, **more):
        line = {"what": what, "job": self.job, "run": self.run, "attempt": self.attempt, "pid": os.getpid(),
                "pool": os.environ["CHAOS_POOL"], "at": time.clock_gettime(time.CLOCK_BOOTTIME), "wall": time.time(), **more}  # fmt: skip
        ledger = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.write(ledger, b"\n" + json.dumps(line).encode() + b"\n")  # whole, whoever was killed before
        os.close(ledger)

    def begin(self):
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.note("overlap", other=json.loads(os.pread(self.lock, 1000, 0) or b"{}"))
        else:
            mine = json.dumps({"run": self.run, "pool": os.environ["CHAOS_POOL"], "pid": os.getpid()})
            os.pwrite(self.lock, mine.encode().ljust(1000), 0)
        self.note("start")

    def end(self, ok):
        self.note("end", ok=ok)
        os.close(self.lock)


def noted(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        ledger = Ledger()
        ledger.begin()
        ok = False
        try:
            function(*args, **kwargs)
            ok = True
            return ledger.run
        finally:
            ledger.end(ok)

    return run


@pool.job(backoff=[0.1], **STUBBORN)
@noted
def nap(seconds: float = 0.0) -> str:
    time.sleep(seconds)


@pool.job(backoff=[0.1], **STUBBORN)
@noted
def once(seconds: float = 0.0) -> str:
    """Enqueued with max_retries = 0."""
    time.sleep(seconds)


@pool.job(backoff=[0.05, 0.2], **STUBBORN)
@noted
def flaky(fails: int = 1) -> str:
    if pool.current().attempt <= fails:
        raise ConnectionError("not yet")


@pool.job
@noted
def hopeless() -> str:
    raise pool.GiveUp("never")


@pool.job(backoff=[0.1], **STUBBORN)
@noted
def family(children: int = 2) -> str:
    for number in range(children):
        pool.current().enqueue(nap.options(delay=0.3 * (number % 2)), seconds=0.0)
    time.sleep(0.02)


@pool.job(backoff=[0.1], **STUBBORN)
@noted
def talker(steps: int = 5) -> str:
    """Tells its progress all the time."""
    for step in range(steps):
        pool.current().progress(step / steps, f"step {step}")
        pool.current().checkpoint(step)
        time.sleep(0.05)


@pool.job(backoff=[0.1], **STUBBORN)
@noted
def parent_of_process(seconds: float = 0.2) -> str:
    """Starts a program, as many jobs do."""
    import subprocess

    subprocess.run(["sleep", str(seconds)], check=True)
