"""What chaos happens to: pools on one store, producers, and on Redis a server with a link of its own for each pool."""

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pool.backends.contract import Backend
from pool.cli import control
from pool.client import Client
from tests.chaos.disk import FILLER, small_disk
from tests.chaos.producer import TOKEN, read_book
from tests.faults.proxy import Proxy
from tests.helpers.house import House, whole_lines
from tests.helpers.servers import FLAVOURS, Server, running

ROOT = Path(__file__).parents[2]
LEASE_S = 4.0
EX_CONFIG = 78
STOP_TIMEOUT_S = 3.0
TASKS = (Path(__file__).parent / "tasks.py").read_text()
LANES = 4
PRODUCERS = 3
_AS_TASKS = (  # the same jobs as coroutines, many in one process
    ("import fcntl", "import asyncio\nimport fcntl"),
    ("    def run(", "    async def run("),
    ("            function(", "            await function("),
    ("@noted\ndef ", "@noted\nasync def "),
    ("time.sleep(", "await asyncio.sleep("),
)
SETTINGS = """
[restart]
first_delay = 0.05
max_delay = 0.5
healthy_after = 1
"""
WEB = f"""
[web]
enabled = true
listen = "RUN/web.sock"
[[tokens]]
name = "customer"
sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"
role = "producer"
queues = ["*"]
max_priority = 100
"""


def as_coroutines(text: str) -> str:
    """The application for a pool whose workers have several lanes."""
    for old, new in _AS_TASKS:
        assert old in text, f"tasks.py has no {old!r} any more"
        text = text.replace(old, new)
    return text


class ChaosHouse(House):
    """A pool with short clocks, whose jobs write into the town's ledger. `lanes` above 1: its jobs are coroutines.
    `has_web`: it has a web child too, through which a producer comes."""

    def __init__(self, *, lanes: int = 1, has_web: bool = False, **options: Any) -> None:
        self.lanes, self.has_web = lanes, has_web
        self.tasks = TASKS if lanes == 1 else as_coroutines(TASKS)
        super().__init__(app=self.tasks, **options)

    def configure(self, *, workers: int = 2, settings: str = "") -> None:
        """Also used for a change of the count while the pool runs."""
        self.wanted = workers
        text = (
            f'[pool]\nname = "{self.folder.name}"\nruntime_dir = "{self.folder}/run"\nstate_dir = "{self.folder}/state"\n'
            f'stop_timeout = {STOP_TIMEOUT_S}\n[app]\nmodules = ["tasks"]\npath = "{self.folder}/app"\n'
            f'[backend]\nurl = "{self.url}"\nlease = {LEASE_S}\n[workers]\ncount = {workers}\nmemory_limit = 0\nconcurrency = {self.lanes}\n'
            f"max_jobs = {40 if workers % 2 else 0}\n{SETTINGS}"
        )
        text += WEB.replace("RUN", f"{self.folder}/run") if self.has_web else ""
        fresh = self.config_file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.config_file)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer, or None when nobody can be asked now (stopped, starting, ending)."""
        with contextlib.suppress(control.PoolUnreachable):
            return control.ask(self.socket, method, path, body, timeout=1.0)[1]
        return None

    def members(self, role: str) -> list[int]:
        """Pids of the workers, of the keeper or of the web child, as far as the pool can tell now."""
        status = self.ask("GET", "/status") or {}
        found = status.get("workers", []) if role == "worker" else [status.get(role) or {}]
        return [one["pid"] for one in found if one.get("pid")]


@dataclass
class Absence:
    """A pool could not reach the store or did not run at all: from, to (CLOCK_BOOTTIME)."""

    pool: str
    since: float
    until: float


@dataclass
class Town:
    """Everything of one run. `folder` holds the ledger, the books of the producers and the locks of the jobs; `disk`, a
    small file system of its own where there is the right to mount one, holds the store."""

    folder: Path
    url: str
    disk: Path | None = None
    pools: list[ChaosHouse] = field(default_factory=list)
    links: list[Proxy] = field(default_factory=list)
    server: Server | None = None
    producers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    boards_lost: set[str] = field(default_factory=set)
    hired: int = 0

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.txt"

    @property
    def kind(self) -> str:
        return "redis" if self.server else "sqlite"

    def hire_producer(self, rng: random.Random) -> None:
        """Start one more; its seed and book are its own. Every second one comes by HTTP."""
        self.hired += 1
        book = self.folder / f"book-{self.hired}.txt"
        sockets = [f"{house.folder}/run/web.sock" for house in self.pools if house.has_web]
        url = self.url if self.hired % 2 or not sockets else rng.choice(sockets)
        words = [sys.executable, "-m", "tests.chaos.producer", url, str(book), str(rng.random())]
        with (self.folder / "producers.log").open("ab") as log:
            self.producers.append(subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log))

    def dismiss_producer(self, producer: subprocess.Popen[bytes]) -> None:
        if producer.poll() is None:
            self.producers.remove(producer)
            producer.kill()
            producer.wait()

    def fallen_producers(self) -> list[str]:
        """A producer ends by our hand only: an answer that it cannot explain is a complaint."""
        fallen = [producer for producer in self.producers if producer.poll() is not None]
        self.producers = [producer for producer in self.producers if producer not in fallen]
        log = (self.folder / "producers.log").read_text(errors="replace").strip().splitlines()
        return [f"a producer ended with {each.returncode}: {log[-1] if log else ''}" for each in fallen]

    def books(self) -> tuple[dict[str, dict[str, Any]], list[list[str]]]:
        """What was accepted, and the batches in doubt."""
        accepted: dict[str, dict[str, Any]] = {}
        doubtful: list[list[str]] = []
        for path in sorted(self.folder.glob("book-*.txt")):
            more, unsure = read_book(path)
            accepted |= more
            doubtful += unsure
        return accepted, doubtful

    def notes(self) -> list[dict[str, Any]]:
        return whole_lines(self.ledger)

    @contextmanager
    def store(self) -> Iterator[Backend]:
        """The store itself, not through a link."""
        client = Client(self.url)
        try:
            yield client.backend()
        finally:
            client.close()

    def start_who_ended(self) -> list[str]:
        """A supervisor may end by itself for two reasons: a signal that came before its handlers stood, and a first start
        with code that no worker can import. Any other end is a complaint."""
        complaints = []
        for house in self.pools:
            if house.is_running or house.process is None:
                continue
            if house.process.returncode not in (-signal.SIGHUP, EX_CONFIG):
                complaints.append(f"a supervisor ended by itself with {house.process.returncode}")
            house.start(wait=False)
        return complaints

    def heal(self) -> None:
        """Whatever the last accident left: every process goes on, every link is whole, every pool runs."""
        for link in self.links:
            link.heal()
        if self.disk is not None:
            (self.disk / FILLER).unlink(missing_ok=True)
        if self.server is not None:
            self.raise_server()
            self.server.thaw()
        for house in self.pools:
            for pid in house.pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            house.write_module("tasks", house.tasks)
            if not house.is_running:
                house.start(wait=False)

    def raise_server(self) -> None:
        """Start it again if it is down, by our hand or because it could not write."""
        assert self.server is not None
        if self.server.process is None or self.server.process.poll() is not None:
            self.server.process = None
            self.server.start()


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@contextmanager
def founded(folder: Path, backend: str, pools: int, workers: int, rng: random.Random) -> Iterator[Town]:
    """A town with its pools started and two producers at work; everything is killed at the end."""
    (folder / "locks").mkdir(parents=True)
    with ExitStack() as stack:
        server = None
        disk = stack.enter_context(small_disk(folder / "disk"))
        if backend != "sqlite":
            flavour = backend if backend in FLAVOURS else sorted(FLAVOURS)[0]
            options: dict[str, Any] = {"dir": disk} if disk else {}
            server = stack.enter_context(running(flavour, aof=True, **options))
        url = server.url if server else f"sqlite:///{folder}/disk/jobs.db"
        town = Town(folder, url, disk, server=server)
        for number in range(pools):
            town.pools.append(stack.enter_context(_pool(town, number, workers, stack)))
        for house in town.pools:
            house.wait_ready()
        for _ in range(PRODUCERS):
            town.hire_producer(rng)
        try:
            yield town
        finally:
            for producer in list(town.producers):
                town.dismiss_producer(producer)


@contextmanager
def _pool(town: Town, number: int, workers: int, stack: ExitStack) -> Iterator[ChaosHouse]:
    url = town.url
    if town.server is not None:
        link = stack.enter_context(Proxy(town.server.port))
        town.links.append(link)
        url = url.replace(str(town.server.port), str(link.port))
    environ = {"LEDGER": str(town.ledger), "CHAOS_LOCKS": str(town.folder / "locks"), "CHAOS_POOL": str(number)}
    house = ChaosHouse(
        workers=workers, backend=url, environ=environ, lanes=LANES if number % 2 else 1, has_web=number % 2 == 0
    )
    try:
        yield house.start(wait=False)
    finally:
        (town.folder / f"pool-{number}.log").write_text(house.log_text())
        house.close()
