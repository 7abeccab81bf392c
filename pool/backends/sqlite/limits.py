"""Limits: jobs of a limit wait out of sight (status HELD) until there is room for one of them to start.

Of each lane (limit, queue, priority) only the head is in sight, and only while the limit has room, so a used-up limit
costs other jobs nothing however many wait. Who may truly start is decided at the claim. Every step that may have
changed something names the limit in `tx.freed`, and `let_go` looks at those once, before the commit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pool.backends.contract import LimitState
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import HELD, PENDING, RUNNING, Transaction
from pool.jobs.job import NewJob
from pool.jobs.limits import Bucket, Rate

_SQL = statements("limits.sql")


@dataclass(slots=True)
class Limit:
    """A row of `limits`, its bucket filled up to now."""

    number: int
    max_running: int
    running: int
    bucket: Bucket | None

    @property
    def may_run(self) -> bool:
        """Whether one more may be under way."""
        return self.max_running == 0 or self.running < self.max_running

    @property
    def opens_at(self) -> float | None:
        """When its rate lets the next one start; None: now, as far as the rate goes."""
        return None if self.bucket is None else self.bucket.opens_at


def declared(tx: Transaction, job: NewJob) -> int:
    """The number of the job's limit, made or changed to what the job says: the newest declaration holds."""
    numbers = (job.limit_count, job.limit_per_s, job.limit_running)
    found = tx.run(_SQL["find limit"], (job.limit_key,)).fetchone()
    if found is None:
        return tx.run(_SQL["add limit"], (job.limit_key, *numbers, job.limit_count, tx.now)).fetchone()[0]  # type: ignore[no-any-return]
    if found[1:] != numbers:
        tx.run(_SQL["change limit"], (numbers[0], numbers[0], *numbers, found[0]))
    return found[0]  # type: ignore[no-any-return]


def _read(tx: Transaction, number: int) -> Limit | None:
    row = tx.run(_SQL["limit"], (number,)).fetchone()
    if row is None:
        return None
    count, per_s, max_running, level, filled_at, running = row
    if not all(isinstance(each, float | int) for each in row):
        return None  # a broken record limits nobody
    bucket = Bucket(Rate(count, per_s), level, filled_at) if count and per_s > 0 else None
    if bucket is not None:
        bucket.fill(tx.now)
    return Limit(number, max_running, running, bucket)


def let_start(tx: Transaction, rank: int) -> bool:
    """Whether this job may start now; it counts as started. A limit that nobody declares any more allows all."""
    number = tx.run(_SQL["limited by"], (rank,)).fetchone()[0]
    limit = None if number is None else _read(tx, number)
    if limit is None:
        return True
    tx.freed.add(number)
    if not limit.may_run or (limit.bucket is not None and not limit.bucket.take()):
        return False
    if limit.bucket is not None:
        tx.run(_SQL["fill"], (limit.bucket.level, limit.bucket.at, number))
    return True


def hold(tx: Transaction, rank: int) -> None:
    """Out of sight: there is no room for it."""
    tx.run(_SQL["stand"], (HELD, HELD, rank))


def let_go(tx: Transaction) -> None:
    """Bring the heads of lanes into sight where there is room, and note when a used-up rate opens again."""
    for number in sorted(tx.freed):
        limit = _read(tx, number)
        if limit is not None:
            _let_go(tx, limit)
    tx.freed.clear()


def _let_go(tx: Transaction, limit: Limit) -> None:
    waits = bool(tx.run(_SQL["has waiting"], (limit.number,)).fetchone())
    opens_at = limit.opens_at if waits and limit.may_run else None
    if tx.run(_SQL["opens at"], (opens_at, limit.number, opens_at)).rowcount and opens_at is not None:
        tx.ring_keeper()
    if not waits or not limit.may_run or limit.opens_at is not None:
        return
    for queue, priority, rank in _heads(tx, limit.number):
        if tx.run(_SQL["is in sight"], (limit.number, queue, priority)).fetchone() is None:
            tx.run(_SQL["stand"], (PENDING, PENDING, rank))
            tx.ring(tx.queue_name(queue), priority)


def _heads(tx: Transaction, number: int) -> Iterator[tuple[int, int, int]]:
    """The first job of each lane, by seeking from lane to lane."""
    head = tx.run(_SQL["next head"], (number, -1, 0)).fetchone()
    while head is not None:
        yield head
        head = tx.run(_SQL["next head"], (number, head[0], head[1])).fetchone()


def open_due(tx: Transaction, at_most: int) -> None:
    """The limits whose rate has opened meanwhile."""
    tx.freed.update(row[0] for row in tx.all(_SQL["opened"], (tx.now, at_most)))


def next_opening(tx: Transaction) -> float | None:
    return tx.run(_SQL["next opening"]).fetchone()[0]  # type: ignore[no-any-return]


def forget(tx: Transaction, at_most: int) -> None:
    """Limits without live jobs whose bucket is full again anyway."""
    tx.run(_SQL["forget limits"], (tx.now, at_most))


def states(tx: Transaction) -> list[LimitState]:
    """Every limit that is known, by key."""
    return [_state(tx, *row) for row in tx.all(_SQL["limits"], (RUNNING, HELD, PENDING))]


def _state(tx: Transaction, key: str, number: int, running: int, waiting: int) -> LimitState:
    limit = _read(tx, number)
    rate = limit.bucket.rate if limit and limit.bucket else Rate()
    return LimitState(
        key=key,
        count=rate.count,
        per_s=rate.per_s,
        max_running=limit.max_running if limit else 0,
        running=running,
        waiting=waiting,
        opens_at=limit.opens_at if limit else None,
    )


def key_of(tx: Transaction, number: int | None) -> str | None:
    """The key of a limit; None when it is forgotten."""
    row = None if number is None else tx.run(_SQL["limit key"], (number,)).fetchone()
    return row and row[0]
