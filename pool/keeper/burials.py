"""Settling departures: every process that is gone, planned or not, is told to the store once, then marked done.

What a worker has kept on disk comes before its departure: told of the departure first, the store would give a job that
is done to another worker, or count an at-most-once job as failed.
"""

from dataclasses import dataclass, field
from pathlib import Path

from pool.backends.contract import Backend, Departure
from pool.backends.spool import departures_in, replay
from pool.board.record import Record
from pool.clock import monotonic_now
from pool.durable import make_folder, write_whole
from pool.errors import BackendUnavailable
from pool.keeper import kept
from pool.keeper.crew import Crew
from pool.keeper.departures import departure_by_note, departure_unwitnessed
from pool.logs import log

UNWITNESSED_AFTER_S = 2.0


@dataclass(slots=True)
class Burials:
    """Reads notes, recovers, marks done. A note whose store step failed stays and is tried again."""

    backend: Backend
    crew: Crew
    spool: Path  # of this store: kept results, and below it kept departures
    pool: str
    parent_is_gone: bool = False
    _has_spooled: bool = False
    _is_spooling: bool = False
    _quiet_turns: int = -1  # of the board, when nobody waited
    _ended_at: dict[tuple[int, int], float] = field(default_factory=dict)

    def settle(self) -> int:
        """Settle whatever can be settled now; how many were. Raises BackendUnavailable at the first that cannot."""
        turns = self.crew.turns()
        if turns == self._quiet_turns and not self.crew.may_have_ended():
            return 0
        settled = self._tell(self._noted()) + self._tell(self._unwitnessed())
        if not settled:
            self._quiet_turns = turns
            self.crew.unpin_strangers()
        elif self._has_spooled:
            self._own_file.unlink(missing_ok=True)
            self._has_spooled = False
        return settled

    def _tell(self, waiting: list[tuple[Record, Departure]]) -> int:
        if waiting:
            self._hand_in_kept_results()
        for record, departure in waiting:
            self._recover(departure)
            self._mark_done(record)
        return len(waiting)

    def waiting(self) -> list[tuple[Record, Departure]]:
        """The dead that the store does not know yet: by the parent's note, or seen by ourselves while it is away."""
        return [*self._noted(), *self._unwitnessed()]

    def _noted(self) -> list[tuple[Record, Departure]]:
        untold = filter(has_untold_note, self.crew.workers())
        return [(record, departure_by_note(self.crew.worker_id(record), record)) for record in untold]

    def _unwitnessed(self) -> list[tuple[Record, Departure]]:
        untold = (record for record in self.crew.workers() if not record.note.read().pid and not is_told(record))
        found = []
        for record in untold:
            if self._is_long_dead(record):
                self.crew.kill_group_of_zombie(record)
                found.append((record, departure_unwitnessed(self.crew.worker_id(record), record)))
        return found

    def save_to_spool(self) -> int:
        """With the store away: keep what could not be told on disk, for the next start; how many. Telling it twice is harmless."""
        if self._is_spooling:  # a signal handler may call this in the midst of itself
            return 0
        self._is_spooling = True
        try:
            departures = [departure for _, departure in self.waiting()]
            if departures:
                make_folder(self._own_file.parent)  # a pool on Redis has had no use for it so far
                write_whole(self._own_file, kept.to_text(departures))
                self._has_spooled = True
            return len(departures)
        finally:
            self._is_spooling = False

    def rehearse(self) -> None:
        """Tell of nobody, so that no job has to wait for what the first telling reads, sends and compiles."""
        for record in self.crew.workers():
            departure_by_note(self.crew.worker_id(record), record)
        self.backend.rehearse(self.crew.pool)

    def replay_spool(self) -> None:
        """Tell the store what the last life of this pool could not; a file that is not ours is set aside."""
        self._hand_in_kept_results()
        for file in sorted(self._own_file.parent.glob("*.json")):
            for departure in self._read(file):
                self._recover(departure)
            file.unlink(missing_ok=True)

    def _hand_in_kept_results(self) -> None:
        replay(self.backend, self.spool)

    @property
    def _own_file(self) -> Path:
        return departures_in(self.spool) / f"{self.pool}.json"

    def _read(self, file: Path) -> list[Departure]:
        try:
            return kept.from_text(file.read_text())
        except FileNotFoundError:
            return []  # another pool of this store has just told it
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("kept departures cannot be read; set aside", file=str(file), error=str(error))
            file.replace(file.with_suffix(".unreadable"))
            return []

    def _recover(self, departure: Departure) -> None:
        for job in self.backend.recover(departure):
            log.info("job taken back", job=job.job_id, worker=job.worker, now=str(job.status), reason=job.reason)

    def _mark_done(self, record: Record) -> None:
        tenant = record.tenant.read()
        record.done.write(tenant.generation, tenant.pid)
        self.crew.unpin(record)

    def _is_long_dead(self, record: Record) -> bool:
        """Whether the process ended and the parent, who should have said so, is gone or has had its time."""
        if self.crew.is_alive(record):
            return False
        tenant = record.tenant.read()
        since = self._ended_at.setdefault((tenant.pid, tenant.generation), monotonic_now())
        return self.parent_is_gone or monotonic_now() - since > UNWITNESSED_AFTER_S


def is_told(record: Record) -> bool:
    """Whether the store knows that this very process is gone."""
    tenant, done = record.tenant.read(), record.done.read()
    return (done.pid, done.generation) == (tenant.pid, tenant.generation)


def has_untold_note(record: Record) -> bool:
    """Whether the note is of this very process and the store does not know. `done` is read first: what is not done stays as
    it is until we say so, while what is done may become another's between two reads.
    """
    done, tenant, note = record.done.read(), record.tenant.read(), record.note.read()
    is_of_tenant = (note.pid, note.generation) == (tenant.pid, tenant.generation)
    return bool(note.pid) and is_of_tenant and (done.pid, done.generation) != (note.pid, note.generation)


def settle_or_report(burials: Burials) -> bool:
    """Settle; False when the store is away and the notes must wait."""
    try:
        burials.settle()
    except BackendUnavailable as error:
        log.limited("departures", "departures must wait", error=str(error))
        return False
    return True
