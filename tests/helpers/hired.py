"""A single worker process without a supervisor: the test makes its seat, forks it, and talks to it by board and signal."""

import ctypes
import logging
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pool.backends.contract import Backend, Departure
from pool.backends.opening import open_backend
from pool.backends.spool import folder_of
from pool.board.board import Board
from pool.board.lanes import Phase
from pool.board.record import Process, Record, Role, State
from pool.clock import monotonic_now
from pool.descriptors import readable
from pool.identity import PoolId, WorkerId, new_pool_id, process_mark
from pool.jobs.ids import new_job_id
from pool.jobs.job import Cause, Job, NewJob
from pool.jobs.lifecycle import Reason, Status
from pool.seat import Seat
from pool.settings import Config
from tests.helpers.until import until

ROOT = Path(__file__).parents[2]
APP = "tests.worker.app"
DEADLINE_S = 60.0


@dataclass
class Hired:
    """A worker process. `code` after its end."""

    pid: int
    seat: Seat
    announce_read: int
    log: Path
    code: int | None = None

    @property
    def record(self) -> Record:
        return self.seat.record

    @property
    def process(self) -> Process:
        return self.record.process.read()

    def until_ready(self) -> "Hired":
        until(lambda: self.process.state != State.BOOTING or self.has_ended(), f"ready\n{self.text()}")
        return self

    def until_idle(self) -> None:
        until(lambda: self.process.state == State.IDLE, "idle")

    def until_started(self, lane: int = 0) -> None:
        until(lambda: self.record.lanes[lane].state.read().phase == Phase.STARTED, f"a started job\n{self.text()}")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def has_ended(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def until_ended(self) -> int:
        """Its exit code (negative: a signal)."""
        until(self.has_ended, f"the worker's end\n{self.text()}", within=DEADLINE_S)
        assert self.code is not None
        return self.code

    def stop(self) -> int:
        if not self.has_ended():
            self.signal(signal.SIGTERM)
        return self.until_ended()

    def kill(self) -> None:
        if not self.has_ended():
            os.killpg(self.pid, signal.SIGKILL)
            self.until_ended()

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else "(no log)"

    def announcements(self) -> int:
        ready = readable([self.announce_read], 0)
        return len(os.read(self.announce_read, 100)) if ready else 0


@dataclass
class Shop:
    """A store, a board and a configuration; hires workers and looks at jobs."""

    folder: Path
    pool: PoolId = field(default_factory=lambda: new_pool_id("shop"))
    hired: list[Hired] = field(default_factory=list)
    lanes: int = 8
    url: str = ""

    def __post_init__(self) -> None:
        self.board = Board(lanes=self.lanes, records=64)
        self.url = self.url or f"sqlite:///{self.folder}/store.db"
        self.store: Backend = open_backend(self.url)

    @property
    def spool(self) -> Path:
        """Where results for this store are kept."""
        return folder_of(self.folder, self.url, "default")

    def config(self, sections: Mapping[str, Any] | None = None, **workers: Any) -> Config:
        base: dict[str, Any] = {
            "app": {"modules": [APP], "path": str(ROOT)},
            "pool": {"name": "shop", "state_dir": str(self.folder)},
            "backend": {"url": self.url},
            "log": {"file": str(self.folder / "log")},
            "workers": {"memory_limit": 0, **workers},
        }
        return Config.model_validate({**base, **(sections or {})})

    def hire(self, config: Config | None = None, *, burst: bool = False, slot: int = 0, **workers: Any) -> Hired:
        """A worker that has become ready (or has ended before)."""
        return self.fork(config or self.config(**workers), burst=burst, slot=slot).until_ready()

    def fork(
        self, config: Config, *, burst: bool = False, slot: int = 0, at_parents_death: signal.Signals = signal.SIGKILL
    ) -> Hired:
        record = self.board.take_free()
        assert record is not None
        record.occupy(Role.WORKER, slot, 1, pid=0, group="workers", now=monotonic_now())
        announce_read, announce = os.pipe2(os.O_NONBLOCK)
        seat = Seat(
            worker=WorkerId(self.pool, slot, len(self.hired) + 1),
            role=Role.WORKER,
            group="workers",
            board=self.board,
            record=record,
            parent=process_mark(),
            announce_fd=announce,
            note_fd=-1,
            stack_fd=-1,
        )
        self.store.close()
        pid = os.fork()
        if pid == 0:
            in_child(lambda: _work(config, seat, burst), at_parents_death)
        os.close(announce)
        record.occupy(Role.WORKER, slot, 1, pid=pid, group="workers", now=monotonic_now())
        worker = Hired(pid, seat, announce_read, self.folder / "log")
        self.hired.append(worker)
        return worker

    def recover(self, worker: Hired, reason: Reason = Reason.WORKER_LOST) -> None:
        """What the keeper does after a death."""
        cause = Cause(reason=reason, signal=9)
        self.store.recover(Departure(worker=worker.seat.worker, cause=cause, started=worker.record.started_claims()))

    # ------------------------------------------------------------ jobs

    def enqueue(self, type_name: str, payload: str = "{}", **fields: Any) -> str:
        return self.enqueue_named(f"{APP}.{type_name}" if "." not in type_name else type_name, payload, **fields)

    def enqueue_named(self, name: str, payload: str = "{}", **fields: Any) -> str:
        return self.store.enqueue([NewJob(id=new_job_id(), type=name, payload=payload, **fields)])[0].job_id

    def job(self, job_id: str) -> Job:
        return self.store.job(job_id)

    def until_over(self, job_id: str) -> Job:
        """The job in its last state."""
        until(lambda: not self.job(job_id).status.is_live, f"the end of {job_id}\n{self._logs()}")
        return self.job(job_id)

    def until_status(self, job_id: str, status: Status) -> Job:
        until(lambda: self.job(job_id).status is status, f"{job_id} to be {status}\n{self._logs()}")
        return self.job(job_id)

    def until_attempts(self, job_id: str, count: int) -> Job:
        until(lambda: len(self.job(job_id).attempts) >= count, f"attempt {count} of {job_id}\n{self._logs()}")
        return self.job(job_id)

    def close(self) -> None:
        for worker in self.hired:
            worker.kill()
            os.close(worker.announce_read)
        self.store.close()

    def _logs(self) -> str:
        log = self.folder / "log"
        return log.read_text(errors="replace") if log.exists() else ""


def in_child(life: Callable[[], int], at_parents_death: signal.Signals) -> None:
    """The rest of a forked process: its own group, told when the test is dead, out by one door."""
    code = 70
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(1, int(at_parents_death), 0, 0, 0)
        code = life()
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _work(config: Config, seat: Seat, burst: bool) -> int:
    from pool.worker.brief import Brief, results_folder
    from pool.worker.loop import run_worker

    logging.getLogger().handlers.clear()  # pytest's
    return run_worker(config, "workers", Brief(results_folder(config), is_burst=burst), seat)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    opened = Shop(tmp_path)
    yield opened
    opened.close()
