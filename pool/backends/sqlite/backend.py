"""The SQLite backend: each method of the contract is one transaction on a file that any number of processes share."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf

from pool.backends.contract import (
    SAME_PURGE_S,
    Answer,
    AuditEntry,
    BatchState,
    Beat,
    BeatAnswer,
    Departure,
    Held,
    JobFilter,
    LimitState,
    Page,
    PoolState,
    Promotion,
    QueueState,
    Recovered,
    Statistics,
    Want,
)
from pool.backends.sqlite import (
    batches,
    bulk,
    departures,
    inspection,
    intake,
    limits,
    marks,
    notes,
    sheaf,
    upkeep,
    work,
)
from pool.backends.sqlite.lanes import StaleLane
from pool.backends.sqlite.leases import Watcher
from pool.backends.sqlite.patrol import Patrol
from pool.backends.sqlite.sheaf import Ahead
from pool.backends.sqlite.store import Store
from pool.backends.sqlite.transaction import Host, this_boot
from pool.backends.sqlite.trouble import NotSynced
from pool.backends.sqlite.waiting import Waiting
from pool.clock import boottime_now, monotonic_now, wall_now
from pool.errors import CallerError, OutcomeUnknown
from pool.identity import LaneId, PoolId, ProcessMark, process_mark
from pool.jobs.job import Job, NewBatch, NewJob, Receipt, Settlement
from pool.jobs.lifecycle import Status

_RING_AGAIN_S = 0.001


class SqliteBackend:
    """See `pool.backends.contract`. The constructor touches nothing; the first call opens the database.

    producer   every commit of this object survives a power cut (else only what is acknowledged to a person or program)
    create     make the database when there is none
    lock_wait  seconds to stand in line for the write lock before BackendBusy
    The clocks and marks are for tests.
    """

    kind = "sqlite"

    def __init__(
        self,
        path: str,
        *,
        producer: bool = False,
        create: bool = True,
        lock_wait: float = 5.0,
        wall: Callable[[], float] = wall_now,
        boottime: Callable[[], float] = boottime_now,
        boot: Callable[[], str] = this_boot,
        mark: Callable[[], ProcessMark] = process_mark,
    ) -> None:
        self._host = Host(wall, boottime, boot, mark)
        self._store = Store(path, self._host, create=create, durable=producer, lock_wait=lock_wait)
        self._waiting = Waiting(self._store)
        self._patrol = Patrol(self._store)
        self._watcher = Watcher(self._host)
        self._rung_for: Want | None = None
        self._rung_at = 0.0
        self._purges: dict[tuple[str, frozenset[Status]], tuple[int, float]] = {}
        self.url = f"sqlite:///{self._store.path}"

    # ------------------------------------------------------------ intake

    def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        refuse_above: int | None = None,
        durable: bool = False,
        batch: NewBatch | None = None,
    ) -> list[Receipt]:
        """Stored and synced before it returns; `durable` asks for nothing more here."""
        if not jobs and batch is None:
            return []
        are_plain = intake.check_batch(jobs, batch)
        try:
            if batch is None:
                ahead = bulk.rings_of(jobs) if are_plain else ()
                try:
                    return self._store.write(
                        lambda tx: bulk.enqueue(tx, jobs, refuse_above, are_plain), durable=True, ahead=ahead
                    )
                except bulk.NotNew:
                    pass
            return self._store.write(lambda tx: intake.enqueue(tx, jobs, refuse_above, batch), durable=True)
        except NotSynced as problem:
            raise OutcomeUnknown(problem.where, problem.why, [job.id for job in jobs]) from problem

    def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        self._store.write(lambda tx: intake.cancel(tx, job_id, owner), durable=True)
        return self.job(job_id)

    def revive(self, job_id: str, *, payload: str | None = None, by: str = "") -> Job:
        self._store.write(lambda tx: intake.revive(tx, job_id, payload, by), durable=True)
        return self.job(job_id)

    def discard(self, job_id: str) -> Job:
        self._store.write(lambda tx: intake.discard(tx, job_id), durable=True)
        return self.job(job_id)

    def set_queue(self, queue: str, *, paused: bool | None = None, max_pending: int | None = None) -> None:
        self._store.write(lambda tx: intake.set_queue(tx, queue, paused, max_pending), durable=True)

    def set_ageing(self, seconds: float) -> None:
        self._store.write(lambda tx: notes.set_ageing(tx, seconds), durable=True)

    def set_setting(self, name: str, value: str) -> None:
        self._store.write(lambda tx: notes.set_setting(tx, name, value), durable=True)

    def note(self, entry: AuditEntry) -> None:
        self._store.write(lambda tx: notes.note(tx, entry), durable=True)

    def delete(self, job_ids: Sequence[str]) -> int:
        return self._store.write(lambda tx: intake.delete(tx, job_ids), durable=True)

    def purge(self, queue: str, *, statuses: frozenset[Status], limit: int = 1000) -> int:
        top = self._top_for(queue, statuses)
        removed = self._store.write(lambda tx: intake.purge(tx, queue, statuses, top, limit), durable=True)
        if removed:
            self._purges[queue, statuses] = (top, monotonic_now())
        else:
            self._purges.pop((queue, statuses), None)
        return removed

    def _top_for(self, queue: str, statuses: frozenset[Status]) -> int:
        """Where the caller's line ended when it began: all calls up to the one that removes nothing are the same purge."""
        top, last_call = self._purges.get((queue, statuses), (0, 0.0))
        if monotonic_now() - last_call < SAME_PURGE_S:
            return top
        return self._store.read(intake.top_rank)

    # ------------------------------------------------------------ work

    def exchange(
        self, lane: LaneId, request: int, *, settlement: Settlement | None = None, want: Want | None = None
    ) -> Answer:
        try:
            told = self._store.write(lambda tx: work.exchange(tx, lane, request, settlement, want))
        except StaleLane:  # somebody recovered this lane: nothing was done, and nothing is remembered any more
            told = self._store.write(lambda tx: work.exchange(tx, lane, request, settlement, want))
        if told.error is not None:
            raise told.error
        if told.work_is_left and want is not None:
            self._pass_on(want)
        return told.answer

    def exchange_many(
        self,
        lanes: Sequence[LaneId],
        request: int,
        *,
        settlements: Sequence[Settlement | None],
        want: Want | None = None,
        ahead: int = 0,
        leave: int = 0,
    ) -> list[Answer]:
        call, beside = list(zip(lanes, settlements, strict=True)), Ahead(ahead, leave)
        try:
            told = self._store.write(lambda tx: sheaf.exchange_many(tx, call, request, want, beside))
        except StaleLane:
            told = self._store.write(lambda tx: sheaf.exchange_many(tx, call, request, want, beside))
        if told.error is not None:
            raise told.error
        if told.work_is_left and want is not None:
            self._pass_on(want)
        return told.answers

    def _pass_on(self, want: Want) -> None:
        """Ring for what is left. Who is awake and busy rings once in a while: each one that a ring wakes rings on by itself."""
        now = monotonic_now()
        if want is not self._rung_for or now - self._rung_at > _RING_AGAIN_S:
            self._rung_for, self._rung_at = want, now
            self._waiting.pass_on(want)

    def report(
        self, held: Held, *, progress: float | None = None, note: str | None = None, checkpoint: str | None = None
    ) -> bool:
        return self._store.write(lambda tx: work.report(tx, held, progress, note, checkpoint))

    def wait(self, want: Want, seconds: float, interrupt_fd: int | None = None, *, watched: bool = False) -> bool:
        self._rung_for = None
        return self._waiting.wait(want, seconds, interrupt_fd, watched)

    # ------------------------------------------------------------ upkeep

    def beat(self, beat: Beat) -> BeatAnswer:
        self._store.look_at_file()
        return self._store.write(lambda tx: upkeep.beat(tx, beat))

    def recover(self, departure: Departure) -> list[Recovered]:
        return self._store.write(lambda tx: departures.recover(tx, departure))

    def rehearse(self, pool: PoolId) -> None:
        with suppress(departures.Rehearsed):
            self._store.write(lambda tx: departures.rehearse(tx, pool))

    def recover_expired(self) -> list[Recovered]:
        """Looks without the write lock, and writes only when there is something to take or to forget."""
        found = self._store.read(lambda tx: (upkeep.run_out(tx, self._watcher), upkeep.gone(tx, self._watcher)))
        if not any(found):
            return []
        return self._store.write(lambda tx: upkeep.recover_run_out(tx, self._watcher))

    def leave(self, pool: PoolId) -> None:
        self._store.write(lambda tx: upkeep.leave(tx, pool))

    def promote(self, limit: int = 1000) -> Promotion:
        """Writes only when something is due. Also keeps the -wal short and sweeps deserted bells."""
        self._waiting.quiet_alarm()
        self._waiting.sweep()
        sight = self._patrol.look()
        if sight.has_due(self._host.wall()):
            return self._store.write(lambda tx: upkeep.promote(tx, limit))
        return Promotion(0, sight.next_event if sight.next_event < inf else None, sight.is_waiting)

    def alarm(self) -> int | None:
        return self._waiting.alarm()

    def tick(self, schedule: str, version: str, due: float, job: NewJob | None) -> Receipt | None:
        if job is not None:
            intake.check_batch([job])
        return self._store.write(lambda tx: upkeep.tick(tx, schedule, version, due, job))

    def last_tick(self, schedule: str) -> float | None:
        return self._store.read(lambda tx: upkeep.last_tick(tx, schedule))

    def last_job(self, schedule: str) -> str | None:
        return self._store.read(lambda tx: upkeep.last_job(tx, schedule))

    def forget(self, *, completed_s: float, failed_s: float, idempotency_s: float, limit: int = 1000) -> int:
        return self._store.write(lambda tx: upkeep.forget(tx, completed_s, failed_s, idempotency_s, limit))

    # ------------------------------------------------------------ inspection

    def job(self, job_id: str) -> Job:
        return self._store.read(lambda tx: inspection.job(tx, job_id))

    def jobs(
        self, which: JobFilter, *, after: str | None = None, limit: int = 50, within_s: float | None = None
    ) -> Page:
        if limit < 1:
            raise CallerError(f"limit must be at least 1, not {limit}")
        return self._store.read(lambda tx: inspection.jobs(tx, which, after, limit))

    def last_failed(self, limit: int = 50) -> list[Job]:
        return self._store.read(lambda tx: inspection.last_failed(tx, limit))

    def ahead(self, job_id: str) -> int | None:
        return self._store.read(lambda tx: inspection.ahead(tx, job_id))

    def batch(self, batch_id: str) -> BatchState:
        return self._store.read(lambda tx: batches.state(tx, batch_id))

    def limits(self) -> list[LimitState]:
        return self._store.read(limits.states)

    def ageing(self) -> float:
        return self._store.read(notes.ageing)

    def setting(self, name: str) -> str | None:
        return self._store.read(lambda tx: notes.setting(tx, name))

    def audit(self, limit: int = 100) -> list[AuditEntry]:
        return self._store.read(lambda tx: notes.audit(tx, limit))

    def queues(self) -> list[QueueState]:
        return self._store.read(inspection.queues)

    def statistics(self) -> Statistics:
        numbers = self._store.read(inspection.numbers)
        file_bytes, wal_bytes = self._store.file_sizes()
        facts = {
            "kind": self.kind,
            "version": sqlite3.sqlite_version,
            "memory_used": None,
            "memory_peak": None,
            "file_bytes": file_bytes,
            "wal_bytes": wal_bytes,
        }
        return Statistics(**numbers, backend=facts)

    def pools(self) -> list[PoolState]:
        return self._store.read(lambda tx: inspection.pools(tx, self._watcher))

    def server_now(self) -> float:
        return self._host.wall()

    # ------------------------------------------------------------ the object itself

    def ping(self) -> float:
        """One read of the store."""
        began = monotonic_now()
        self._store.read(work.next_due)
        return monotonic_now() - began

    def startup_warnings(self) -> list[str]:
        """What a pool that starts here should be told."""
        return self._store.read(marks.warnings)

    def close(self) -> None:
        self._waiting.close()
        self._store.close()
