"""A real running pool for tests: `python -m pool start` as a process of its own, all of it in a private directory.

    def test_something(open_house):
        house = open_house(workers=2)                    # ready when this returns; APP unless `app=` is given
        job = house.enqueue("tasks.hold", {"gate": "a"})
        worker = house.wait_for_worker_of(job)
        house.kill(worker.pid)
        house.wait_for_worker_of(job, other_than=worker)
        house.release("a")
        house.wait_until(job, "completed")
        assert len(house.runs(job)) == 2

`ledger.txt` is written by the jobs themselves, outside the product: what it says ran did run. When a test fails, the
pool's log is printed. The teardown kills everything that the house ever started, also what left its process group.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pool.backends.contract import Backend
from pool.cli import control
from pool.client import Client
from pool.jobs import checks
from pool.jobs.documents import job_document
from pool.jobs.job import Job
from pool.jobs.published import PublishedTypes
from tests.helpers.until import GENEROUS_SECONDS, until

T = TypeVar("T")
MARK = "JOBPOOL_TEST_HOUSE"
LOG_LINES_SHOWN = 150

LEDGER_MODULE = '''
"""Notes of what ran, one line each, appended in one write."""
import functools, inspect, json, os, time
import pool

def note(what, **more):
    job = pool.current()
    line = json.dumps({"what": what, "job": job.id, "attempt": job.attempt, "pid": os.getpid(),
                       "at": time.clock_gettime(time.CLOCK_BOOTTIME), **more})
    fd = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, b"\\n" + line.encode() + b"\\n")  # a SIGKILL in the midst must not spoil the next one's line
    os.close(fd)

def noted(function):
    """Put under @pool.job: a line at the start, and one at the end however it ends."""
    if inspect.iscoroutinefunction(function):
        @functools.wraps(function)
        async def run_async(*args, **kwargs):
            note("start")
            try:
                return await function(*args, **kwargs)
            finally:
                note("end")
        return run_async
    @functools.wraps(function)
    def run(*args, **kwargs):
        note("start")
        try:
            return function(*args, **kwargs)
        finally:
            note("end")
    return run

def wait_for_gate(name):
    """Until the test releases it."""
    while not os.path.exists(os.path.join(os.environ["GATES"], name)):
        time.sleep(0.005)
'''

APP = '''
import os, signal, time
import pool
from ledger import noted, wait_for_gate

@pool.job
@noted
def quick(n: int = 0) -> int:
    """Done at once."""
    return n

@pool.job
@noted
def hold(gate: str = "gate") -> str:
    """Runs until the test releases the gate."""
    wait_for_gate(gate)
    return gate

@pool.job(max_retries=0)
@noted
def hold_once(gate: str = "gate") -> str:
    """The same, at most once."""
    wait_for_gate(gate)
    return gate

@pool.job
@noted
def nap(seconds: float = 0.1) -> None:
    """Takes this long."""
    time.sleep(seconds)

@pool.job(max_retries=2, backoff=[0.1])
@noted
def fail(text: str = "no luck") -> None:
    """Fails each time."""
    raise RuntimeError(text)

@pool.job(max_retries=5, backoff=[0.1])
@noted
def flaky(fails: int = 1) -> int:
    """Fails so many times, then completes."""
    attempt = pool.current().attempt
    if attempt <= fails:
        raise ConnectionError("not yet")
    return attempt

@pool.job
@noted
def give_up() -> None:
    """Can never succeed."""
    raise pool.GiveUp("hopeless")

@pool.job(max_retries=10)
@noted
def die() -> None:
    """Kills its worker each time."""
    os.kill(os.getpid(), signal.SIGKILL)
'''


@dataclass(frozen=True, slots=True)
class Run:
    """One start of a job as the job itself noted it. `ended` is None when it never came to its end."""

    pid: int
    attempt: int
    started: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process as /status shows it."""

    slot: int
    generation: int
    pid: int
    state: str
    jobs: tuple[str, ...]


class House:
    """A pool and everything a test wants to ask it or do to it."""

    def __init__(
        self,
        *,
        workers: int = 2,
        app: str = APP,
        settings: str = "",
        flags: tuple[str, ...] = (),
        environ: dict[str, str] | None = None,
        backend: str | None = None,
        prefix: tuple[str, ...] = (),
    ) -> None:
        # short: the path of a Unix socket has 107 characters at most
        self.folder = Path(tempfile.mkdtemp(prefix="jph-", dir="/tmp"))
        self.url = backend or f"sqlite:///{self.folder}/jobs.db"
        self.socket = self.folder / "run" / "jobpool.sock"
        self.config_file = self.folder / "jobpool.toml"
        self.ledger, self.gates = self.folder / "ledger.txt", self.folder / "gates"
        self.log_file = self.folder / "pool.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._flags, self._prefix = flags, prefix
        self._sessions: set[int] = set()
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("JOBPOOL_")},
            "HOME": str(self.folder),
            "LEDGER": str(self.ledger),
            "GATES": str(self.gates),
            MARK: str(self.folder),
            "SPT_NOENV": "1",  # process titles must not overwrite the environment, by which `pids` finds us
            **(environ or {}),
        }
        self.gates.mkdir()
        (self.folder / "app").mkdir()
        self.write_module("ledger", LEDGER_MODULE)
        self.write_module("tasks", app)
        self.configure(workers=workers, settings=settings)
        self.client = Client(self.url)

    # ------------------------------------------------------------ before the start

    def configure(self, *, workers: int = 2, settings: str = "") -> None:
        """Write jobpool.toml, whole or not at all. `settings` are further tables, or keys of [workers] before the first table."""
        part = self.config_file.with_suffix(".part")
        part.write_text(
            f'[pool]\nname = "house"\nruntime_dir = "{self.folder}/run"\nstate_dir = "{self.folder}/state"\n'
            f'[app]\nmodules = ["tasks"]\npath = "{self.folder}/app"\n'
            f'[backend]\nurl = "{self.url}"\n[workers]\ncount = {workers}\n{settings}\n'
        )
        part.replace(self.config_file)

    def write_module(self, name: str, text: str) -> None:
        (self.folder / "app" / f"{name}.py").write_text(text)

    # ------------------------------------------------------------ start and stop

    def start(self, *, wait: bool = True) -> "House":
        """Start the pool (again); with `wait`, every worker is ready when this returns."""
        words = [*self._prefix, sys.executable, "-m", "pool", "start", "--config", str(self.config_file), *self._flags]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environ,
                cwd=self.folder,
                start_new_session=True,
            )
        self._sessions.add(self.process.pid)
        if wait:
            self.wait_ready()
        return self

    @property
    def pid(self) -> int:
        """The supervisor."""
        assert self.process is not None, "the house was never started"
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def wait_ready(self, within: float = GENEROUS_SECONDS) -> None:
        """Until /readyz says yes; fails at once when the supervisor has ended."""

        def is_ready() -> bool:
            assert self.is_running, f"the pool ended with {self.process and self.process.returncode}\n{self.log_text()}"
            with contextlib.suppress(control.PoolUnreachable):
                return control.ask(self.socket, "GET", "/readyz")[0] == 200
            return False

        until(is_ready, "pool ready", within=within)

    def send_signal(self, number: int) -> None:
        """Send a signal to the supervisor alone."""
        os.kill(self.pid, number)

    def send_signal_to_all(self, number: int) -> None:
        """Send a signal to everybody, as a terminal does (each child is also a group of its own); the supervisor first, which
        would else see others die and start new ones."""
        for pid in sorted(self.pids(), key=lambda pid: pid != self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self, within: float = GENEROUS_SECONDS) -> int:
        """SIGTERM, and the supervisor's exit code."""
        self.send_signal(signal.SIGTERM)
        return self.wait_exit(within)

    def wait_exit(self, within: float = GENEROUS_SECONDS) -> int:
        """The supervisor's exit code, when it has ended by itself."""
        assert self.process is not None
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the supervisor did not end within {within:g} s") from None

    def close(self) -> None:
        """Kill all that was started here and remove the directory."""
        with contextlib.suppress(Exception):
            self.client.close()
        deadline = time.monotonic() + 10
        while (left := self.pids()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self.process is not None:
                self.process.poll()
            time.sleep(0.02)
        if self.process is not None:
            self.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------ processes

    def pids(self) -> list[int]:
        """Every living process that was started in this house, whoever its parent is now."""
        return [pid for pid in _all_pids() if pid != os.getpid() and self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        """By session, working directory or environment (a process title overwrites the last of these)."""
        state, session = _state_and_session(pid)
        if state in "ZX":
            return False
        mark = f"{MARK}={self.folder}".encode()
        return session in self._sessions or _cwd_of(pid) == str(self.folder) or mark in _environ_of(pid)

    def workers(self) -> list[Worker]:
        """The living workers, by slot."""
        return [
            Worker(w["slot"], w["generation"], w["pid"], w["state"], tuple(job["id"] for job in w["jobs"]))
            for w in self.status()["workers"]
            if w["pid"]
        ]

    def worker_pids(self) -> set[int]:
        return {worker.pid for worker in self.workers()}

    def keeper_pid(self) -> int:
        return int(until(lambda: (self.status()["keeper"] or {}).get("pid"), "a keeper"))

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        os.kill(pid, number)

    def wait_for_worker_of(
        self, job_id: str, *, other_than: Worker | None = None, within: float = GENEROUS_SECONDS
    ) -> Worker:
        """The worker that runs this job now (its first line is in the ledger), and is not `other_than`."""

        def holder() -> Worker | None:
            noted = {run.pid for run in self.runs(job_id) if run.ended is None}
            found = (w for w in self.workers() if job_id in w.jobs and w.pid in noted)
            return next((w for w in found if other_than is None or w.pid != other_than.pid), None)

        found = until(holder, f"a worker running {job_id}", within=within)
        assert found is not None
        return found

    # ------------------------------------------------------------ jobs

    def enqueue(self, type_name: str, payload: dict[str, Any] | None = None, **options: Any) -> str:
        """Store a job with the rules of its type, as the workers wrote them down; its id."""
        return self.enqueue_many([(type_name, payload or {})], **options)[0]

    def enqueue_many(self, items: list[tuple[str, dict[str, Any]]], **options: Any) -> list[str]:
        """Store jobs in one step; their ids, in order."""
        types = self.types()
        drafts = []
        for name, payload in items:
            found = types.get(name)
            assert found is not None, f"{name} is not among {types.known()}"
            drafts.append(checks.new_job(found.name, checks.payload_text(payload), found.terms, options))
        return [receipt.job_id for receipt in self.client.enqueue_drafts(drafts)]

    def types(self) -> PublishedTypes:
        """What the workers know; waits until the first of them has written it down."""
        file = self.folder / "run" / "types.json"
        text = until(lambda: file.exists() and file.read_text(), "types.json")
        return PublishedTypes([{"types": json.loads(text or "{}")}])

    @property
    def store(self) -> Backend:
        return self.client.backend()

    def job(self, job_id: str) -> Job:
        """The job with its attempts, as stored."""
        return self.client.get(job_id)

    def wait_until(self, job_id: str, status: str, within: float = GENEROUS_SECONDS) -> Job:
        """The job, once it is in this state; fails at once when it ended in another."""

        def is_there() -> Job | None:
            job = self.job(job_id)
            if job.status.value == status:
                return job
            wrong_end = not job.status.is_live and status in ("completed", "failed", "cancelled")
            assert not wrong_end, f"job ended {job.status}: {job.reason} {job.error}"
            return None

        job = until(is_there, f"job {job_id} {status} (is {job_document(self.job(job_id))})", within=within)
        assert job is not None
        return job

    def counts(self, queue: str = "default") -> dict[str, int]:
        """How many jobs of the queue are in each state."""
        state = next((found for found in self.store.queues() if found.name == queue), None)
        names = ("pending", "scheduled", "running", "completed", "failed")
        return {name: getattr(state, name) if state else 0 for name in names}

    def release(self, gate: str = "gate") -> None:
        """Let jobs that hold at this gate go on."""
        (self.gates / gate).touch()

    # ------------------------------------------------------------ what ran

    def notes(self) -> list[dict[str, Any]]:
        """Every line of the ledger."""
        return whole_lines(self.ledger)

    def runs(self, job_id: str) -> list[Run]:
        """Every start of this job in order, with its end if it came to it."""
        runs: list[Run] = []
        for line in (note for note in self.notes() if note["job"] == job_id):
            if line["what"] == "start":
                runs.append(Run(line["pid"], line["attempt"], line["at"], None))
            elif line["what"] == "end":
                runs = [_ended(run, line) for run in runs]
        return runs

    # ------------------------------------------------------------ asking

    def answers(self) -> bool:
        """Whether the supervisor answers; a socket file is there a moment before that."""
        with contextlib.suppress(control.PoolUnreachable):
            return bool(self.status())
        return False

    def status(self) -> dict[str, Any]:
        """The /status document."""
        code, document = control.ask(self.socket, "GET", "/status", timeout=30)
        assert code == 200, document
        return dict(document)

    def wait_for(self, fact: Callable[[], T], what: str = "the fact", within: float = GENEROUS_SECONDS) -> T:
        return until(fact, what, within=within)

    def cli(self, *words: str, check: bool = True, input: str = "", timeout: float = 60) -> Any:
        """Run `jobpool WORDS --config …` and return the finished process, its output as text."""
        command = [sys.executable, "-m", "pool", *words, "--config", str(self.config_file)]
        done = subprocess.run(
            command, env=self._environ, cwd=self.folder, input=input, capture_output=True, text=True, timeout=timeout
        )
        assert not check or done.returncode == 0, f"{words} → {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def cli_json(self, *words: str) -> Any:
        return json.loads(self.cli(*words, "--json").stdout)

    def log_text(self) -> str:
        """What the pool has written so far."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""


@pytest.fixture
def open_house() -> Iterator[Callable[..., House]]:
    """Open houses as the test needs them: `open_house(workers=2, app=…, settings=…)`; `start=False` only prepares."""
    houses: list[House] = []

    def open_one(*, start: bool = True, wait: bool = True, **options: Any) -> House:
        house = House(**options)
        houses.append(house)
        return house.start(wait=wait) if start else house

    yield open_one
    for house in houses:
        print(f"--- log of {house.folder}")
        print("\n".join(house.log_text().splitlines()[-LOG_LINES_SHOWN:]))
        house.close()


def whole_lines(ledger: Path) -> list[dict[str, Any]]:
    """Every line but those that their writer was killed in the midst of: a write over two pages can be cut between them."""
    found = []
    for line in ledger.read_text().splitlines() if ledger.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def _ended(run: Run, line: dict[str, Any]) -> Run:
    is_it = run.ended is None and (run.pid, run.attempt) == (line["pid"], line["attempt"])
    return Run(run.pid, run.attempt, run.started, line["at"]) if is_it else run


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _environ_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _cwd_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _state_and_session(pid: int) -> tuple[str, int]:
    """The letter of the process's state and its session; X for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[3])
