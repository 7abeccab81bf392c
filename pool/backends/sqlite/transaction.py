"""What one step of the backend works with: the connection, the time, names as numbers, and counts booked at its end."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pool.backends.sqlite.bell import SCHEDULE_CHANGED, Bells, Ring
from pool.backends.sqlite.statements import statements
from pool.clock import boottime_now, wall_now
from pool.identity import ProcessMark, boot_id, process_mark
from pool.jobs.priority import HIGHEST, LOWEST

Row = tuple[Any, ...]
# A queue's books: jobs in each state, and what happened to jobs this hour.
SCHEDULED, PENDING, RUNNING, COMPLETED, FAILED, CANCELLED = range(6)
HELD = -PENDING  # pending too, but out of sight until its limit has room
ENQUEUED, DID_COMPLETE, RETRIED, DID_FAIL, DID_CANCEL = range(6, 11)
_SQL = statements("books.sql")
_SECONDS_PER_HOUR = 3600


@cache
def this_boot() -> str:
    """The id of this boot: a process never sees another one."""
    return boot_id()


def _parent_mark() -> ProcessMark | None:
    """The mark of the process that forked us, while it lives."""
    try:
        return process_mark(os.getppid())
    except OSError:
        return None


@dataclass
class Host:
    """What a store knows of its process: clocks (tests may turn them) and numbers that never change in one database."""

    wall: Callable[[], float] = wall_now
    boottime: Callable[[], float] = boottime_now
    boot: Callable[[], str] = this_boot
    mark: Callable[[], ProcessMark] = process_mark
    parent_mark: Callable[[], ProcessMark | None] = _parent_mark
    queue_ids: dict[str, int] = field(default_factory=dict)
    queue_names: dict[int, str] = field(default_factory=dict)
    name_ids: dict[str, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    lanes: dict[int, Any] = field(default_factory=dict)  # id of a LaneId -> LaneRecord, as this process last saved it

    def forget_names(self) -> None:
        """After a rollback or on another database: what was learnt may not be stored."""
        for learnt in (self.queue_ids, self.queue_names, self.name_ids, self.names, self.lanes):
            learnt.clear()


class Transaction:
    """One step in the store. Counts are collected and booked once, before the commit."""

    __slots__ = (
        "_bells",
        "_cursor",
        "books",
        "freed",
        "host",
        "hour",
        "made_pending",
        "must_sync",
        "now",
        "rings",
        "run",
    )

    def __init__(self, cursor: sqlite3.Cursor, host: Host, bells: Bells) -> None:
        self._cursor, self.host, self._bells = cursor, host, bells
        self.now = now = host.wall()
        self.hour = int(now // _SECONDS_PER_HOUR)
        self.run = cursor.execute  # one cursor for all: what it found is fetched before the next statement
        self.made_pending = False  # a queue may have got longer: its count is booked before anything looks for a job
        self.rings: set[Ring] = set()
        self.must_sync = False
        self.freed: set[int] = set()  # limits to look at before the commit
        self.books: dict[int, list[int]] = {}  # counts of this step by queue, until they are written

    def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self.run(sql, parameters).fetchall()

    def run_many(self, sql: str, rows: Sequence[Row]) -> int:
        """The same statement for each of these; how many rows they changed in all."""
        if len(rows) == 1:
            return self.run(sql, rows[0]).rowcount
        return self._cursor.executemany(sql, rows).rowcount

    # ------------------------------------------------------------ names

    def queue_id(self, name: str) -> int:
        """The number of a queue, made on first use (in a write transaction)."""
        known = self.host.queue_ids.get(name)
        if known is None:
            known = self._intern("find queue", "add queue", name)
            self._learn_queue(known, name)
        return known

    def known_queue_id(self, name: str) -> int | None:
        known = self.host.queue_ids.get(name)
        if known is None:
            row = self.run(_SQL["find queue"], (name,)).fetchone()
            if row is not None:
                known = row[0]
                self._learn_queue(row[0], name)
        return known

    def queue_name(self, number: int) -> str:
        """ValueError when no queue has this number: the record is broken."""
        known = self.host.queue_names.get(number)
        if known is None:
            known = self._text("queue name", number)
            self._learn_queue(number, known)
        return known

    def name_id(self, name: str) -> int:
        """The number of a type or owner, made on first use (in a write transaction)."""
        known = self.host.name_ids.get(name)
        if known is None:
            known = self.host.name_ids[name] = self._intern("find name", "add name", name)
        return known

    def known_name_id(self, name: str) -> int | None:
        row = self.run(_SQL["find name"], (name,)).fetchone()
        return row and row[0]  # type: ignore[no-any-return]

    def name(self, number: int) -> str:
        """ValueError when nothing has this number: the record is broken."""
        known = self.host.names.get(number)
        if known is None:
            known = self.host.names[number] = self._text("name", number)
        return known

    def _learn_queue(self, number: int, name: str) -> None:
        self.host.queue_ids[name], self.host.queue_names[number] = number, name

    def _intern(self, find: str, add: str, name: str) -> int:
        row = self.run(_SQL[find], (name,)).fetchone()
        return row[0] if row else self.run(_SQL[add], (name,)).fetchone()[0]  # type: ignore[no-any-return]

    def _text(self, what: str, number: int) -> str:
        row = self.run(_SQL[what], (number,)).fetchone()
        if row is None:
            raise ValueError(f"no {what} has number {number!r}")
        return row[0]  # type: ignore[no-any-return]

    # ------------------------------------------------------------ counts

    def moved(
        self, queue: int, source: int | None, target: int | None, event: int | None = None, times: int = 1
    ) -> None:
        """A job of the queue (or so many) left one state and entered another (None: it was not, or is no longer, stored).

        `event` is what this means for the statistics of the hour."""
        counts = self.books.get(queue)
        if counts is None:
            counts = self.books[queue] = [0] * 11
        if source is not None:
            counts[abs(source)] -= times  # one that is held back counts as pending
        if target is not None:
            counts[target] += times
            self.made_pending = self.made_pending or target == PENDING
        if event is not None:
            counts[event] += times

    def unbooked(self, queue: int, state: int) -> int:
        """By how many the jobs of the queue in this state have changed since they were booked."""
        counts = self.books.get(queue)
        return 0 if counts is None else counts[state]

    def happened(self, queue: int, event: int) -> None:
        """One more event, beside the one that a move brings."""
        self.moved(queue, None, None, event)

    def book(self) -> None:
        """Write the counts of this step to its queues: once before the commit, or sooner where they are needed."""
        hour, self.made_pending = self.hour, False
        for queue, counts in self.books.items():
            if self.run(_SQL["book moves"], (*counts, queue, hour)).rowcount == 0:
                self.run(_SQL["keep hour"], (queue,))
                self.run(_SQL["begin hour"], (hour, queue))
                self.run(_SQL["book moves"], (*counts, queue, hour))
        self.books.clear()

    def book_death(self) -> None:
        self.run(_SQL["book death"], (self.hour,))

    def ring(self, queue: str, priority: int) -> None:
        """After the commit, wake a worker that serves this queue and priority."""
        self.rings.add(_ring_of(queue, priority))

    def ring_ahead(self, queue: str, priority: int) -> None:
        """The same before the commit, in a step that makes a job pending (see `Store.write`)."""
        self._bells.ring((_ring_of(queue, priority),))

    def ring_keeper(self) -> None:
        self.rings.add(SCHEDULE_CHANGED)

    def ring_all_of(self, queue: str) -> None:
        """A whole queue may have become eligible."""
        self.rings.update(Ring(queue, priority) for priority in range(LOWEST, HIGHEST + 1))


def _ring_of(queue: str, priority: int) -> Ring:
    """A broken record has a priority of another kind."""
    return Ring(queue, priority if isinstance(priority, int) else LOWEST)
