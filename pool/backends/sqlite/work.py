"""What a lane does, inside one transaction: settle what it held and take the next job."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from pool.backends.contract import Answer, Held, Want
from pool.backends.sqlite import lanes, limits, rows, settling
from pool.backends.sqlite.intake import end_unstarted
from pool.backends.sqlite.lanes import LaneRecord
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import CANCELLED, FAILED, HELD, PENDING, RUNNING, SCHEDULED, Row, Transaction
from pool.backends.sqlite.trouble import UNREADABLE
from pool.errors import ClaimLost, LaneBarred, RequestRefused
from pool.identity import LaneId
from pool.jobs.job import LOCAL_OWNER, Claim, Outcome, Settlement
from pool.jobs.lifecycle import Reason

_SQL = statements("work.sql")
_AGEING = statements("ageing.sql")
PROMOTED_PER_CLAIM = 100
_SKIPPED_PER_CLAIM = 100


@dataclass(slots=True)
class Told:
    """The answer to an exchange, and the error to raise once what it settled is committed."""

    answer: Answer
    error: LaneBarred | None = None
    work_is_left: bool = False


def exchange(tx: Transaction, lane: LaneId, request: int, word: Settlement | None, want: Want | None) -> Told:
    """One numbered call of a lane: settle, then hand out. The same number again is answered alike.

    StaleLane, having changed nothing, when it must be done again."""
    record = lanes.remembered(tx, lane, request) or stored_record(tx, lane, want)
    if record is None:
        return Told(Answer(None if word is None else False))  # a lane that never claimed has nothing to settle
    if request < record.request:
        raise RequestRefused(str(lane), request, record.request)
    if request == record.request:
        return _again(tx, lane, record, want)
    record.request = request
    record.settled = None if word is None else int(settle(tx, record, word))
    told, found = tell(tx, lane, record, want)
    record.save(tx)
    lanes.drop_if_leased_and_idle(tx, lane, record)
    if found is not None:
        told.work_is_left = is_work_left(tx, found)
    return told


def stored_record(tx: Transaction, lane: LaneId, want: Want | None) -> LaneRecord | None:
    if want is None:
        return lanes.find(tx, lane)
    return lanes.find_or_add(tx, lane, leased=want.lease_seconds is not None)


def tell(tx: Transaction, lane: LaneId, record: LaneRecord, want: Want | None) -> tuple[Told, Row | None]:
    """The answer to a lane that has settled, and the row of the job that it is handed now."""
    settled = as_bool(record.settled)
    if want is None:
        return Told(Answer(settled)), None
    if record.barred:
        return Told(Answer(settled), LaneBarred(str(lane))), None
    record.lease = want.lease_seconds
    claim, row = held_claim(tx, record), None
    if claim is None and (found := hand_out(tx, record, want)) is not None:
        claim, row = found
    if claim is not None and want.lease_seconds is not None:
        tx.run(_SQL["lane lease"], (want.lease_seconds, tx.host.boottime() + want.lease_seconds, record.id))
    return Told(Answer(settled, claim)), row


def _again(tx: Transaction, lane: LaneId, record: LaneRecord, want: Want | None) -> Told:
    """The lane repeats its last request: its reply was lost. A claim that has moved on is not handed out again.

    What was lost may have been a sync that failed: whatever is answered now must be on disk."""
    tx.must_sync = True
    settled = as_bool(record.settled)
    if want is not None and record.barred:
        return Told(Answer(settled), LaneBarred(str(lane)))
    return Told(Answer(settled, None if want is None else held_claim(tx, record)))


def as_bool(settled: int | None) -> bool | None:
    return None if settled is None else bool(settled)


# ---------------------------------------------------------------- settle


def settle(tx: Transaction, record: LaneRecord, word: Settlement) -> bool:
    """Whether the word was accepted: only the current holder's, under its claim number."""
    if completes_first_try(record, word):
        settling.complete_first_tries(tx, [(record, word)])
        return True
    held = record.held
    if held is None or record.claim != word.claim:
        return False
    job = settling.held_job(tx, held)
    if job is None or rows.id_for_people(job.raw_id) != word.job_id:
        return False
    settling.settle(tx, job, word, record.worker)
    record.let_go()
    return True


def completes_first_try(record: LaneRecord, word: Settlement) -> bool:
    """Whether this completes the first attempt of a job that nothing follows, as this process handed it out."""
    is_known = bool(record.first_job) and record.first_job == word.job_id and record.claim == word.claim
    return is_known and word.outcome is Outcome.COMPLETED


# ---------------------------------------------------------------- hand out


def hand_out(tx: Transaction, record: LaneRecord, want: Want) -> tuple[Claim, Row] | None:
    """Give the lane the best job it serves; on the way cancel expired ones and set unreadable ones aside."""
    if tx.freed:
        limits.let_go(tx)
    if tx.made_pending:
        tx.book()
    for _ in range(_SKIPPED_PER_CLAIM):
        row = best_for(tx, want)
        due = next_due(tx) if row is None else row[19]
        if due is not None and due <= tx.now and promote_due(tx, PROMOTED_PER_CLAIM):
            tx.book()
            continue
        if row is None:
            return None
        claim = _fit_claim(tx, row)
        if claim is None:
            tx.book()
        elif row[17] and not limits.let_start(tx, row[0]):
            limits.hold(tx, row[0])
        elif _take(tx, record, row, claim):
            return claim, row
        else:
            tx.book()
    return None


def best_for(tx: Transaction, want: Want) -> Row | None:
    low, high = want.min_priority, want.max_priority
    row: Row | None
    if not want.is_any:
        row = tx.run(_SQL["next of list"], (queue_numbers(tx, want.queues), low, high)).fetchone()
    elif want.reserved:
        row = next_but(tx, want, want.reserved)
    else:
        row = tx.run(_SQL["next of any"], (low, high)).fetchone()
    return row if row is None or not row[20] else _best_of_all_ages(tx, want, row[20])


def next_but(tx: Transaction, want: Want, others: Sequence[str]) -> Row | None:
    """The best job of any queue but these, which need not exist."""
    row: Row | None = tx.run(_any_but(len(others)), (want.min_priority, want.max_priority, *others)).fetchone()
    return row


@cache
def _any_but(count: int) -> str:
    """The statement for so many queues: a list in JSON takes as long to read as the job to find."""
    return _SQL["next of any but"].replace("NOT IN (?)", f"NOT IN ({', '.join('?' * count)})")


def _best_of_all_ages(tx: Transaction, want: Want, grain: int) -> Row | None:
    """Where waiting counts: a point of priority is worth `grain` microseconds."""
    name, queues = ("next of any", want.reserved) if want.is_any else ("next of list", want.queues)
    asked = (want.max_priority, queue_numbers(tx, queues), grain, want.min_priority, grain)
    row: Row | None = tx.run(_AGEING[name], asked).fetchone()
    return row


def queue_numbers(tx: Transaction, names: Iterable[str]) -> str:
    """The numbers of those queues that exist, as a JSON list in the same order."""
    known = (tx.known_queue_id(name) for name in names)
    return str([number for number in known if number is not None])


def _fit_claim(tx: Transaction, row: Row) -> Claim | None:
    """The claim of a job that may start. Any other is brought to its end here: expired, or a record that is broken."""
    rank, queue, expires_at = row[0], row[3], row[16]
    try:
        if expires_at is not None and expires_at <= tx.now:
            end_unstarted(tx, rank, queue, PENDING, CANCELLED, Reason.EXPIRED)
            return None
        return next_claim(tx, row, tx.host.boottime())
    except UNREADABLE as problem:
        _set_aside(tx, row, problem)
        return None


def _set_aside(tx: Transaction, row: Row, problem: Exception) -> None:
    text = f"the stored record cannot be read: {problem}"
    end_unstarted(tx, row[0], row[3], PENDING, FAILED, Reason.INVALID_RECORD, text)


def next_claim(tx: Transaction, row: Row, boottime: float) -> Claim:
    """The next claim of a pending job; one of UNREADABLE when its record is broken."""
    if row[17]:
        rows.read_follow_ups(row[17])
    return as_claim(tx, row, row[6] + 1, tx.now, boottime)


def _take(tx: Transaction, record: LaneRecord, row: Row, claim: Claim) -> bool:
    """False for a record that was broken behind our back so that it claims the unique key of another job: set aside."""
    rank, now = row[0], tx.now
    take = "take" if row[23] is None else "take watched"
    try:
        tx.run(_SQL[take], (record.id, claim.claim, now, rank))
    except sqlite3.IntegrityError as problem:
        _set_aside(tx, row, problem)
        return False
    tx.moved(row[3], PENDING, RUNNING)
    record.hold(rank, claim, row)
    if claim.max_retries == 0:
        tx.must_sync = True  # at most once: the claim must outlive a power cut
    return True


def is_work_left(tx: Transaction, row: Row, taken: int = 1) -> bool:
    """Whether another worker of this class may find something too (a hint: it only rings)."""
    if not isinstance(row[18], int) or row[18] > taken:
        return True
    return tx.run(_SQL["work is left"], (row[3],)).fetchone() is not None


def held_claim(tx: Transaction, record: LaneRecord) -> Claim | None:
    """What the lane holds already, if it does: given again under the same number."""
    if record.held is None:
        return None
    row: Row | None = tx.run(_SQL["held job"], (record.held,)).fetchone()
    return None if row is None else as_claim(tx, row, row[6], row[18], tx.host.boottime())


def as_claim(tx: Transaction, row: Row, number: int, claimed_at: float, boottime: float) -> Claim:
    """The claim of a job row; ValueError or TypeError when the record is broken."""
    (
        rank, raw_id, kind, queue, payload, priority, _, retries, max_retries, kills, misfits, timeout, created,
        checkpoint, owner, flags, *_,
    ) = row  # fmt: skip
    if not isinstance(payload, str):
        raise ValueError("its payload is not text")
    created_at = rank / rows.MICROSECONDS if created is None else float(created)
    claim = Claim(
        rows.id_text(raw_id), number, tx.name(kind), tx.queue_name(queue), payload, int(priority), retries + 1,
        int(max_retries), created_at, claimed_at, boottime,
    )  # fmt: skip
    claim.retry_count, claim.kill_count, claim.misfits = int(retries), int(kills), int(misfits)
    claim.timeout, claim.checkpoint = float(timeout), rows.readable(checkpoint)
    claim.owner = LOCAL_OWNER if owner is None else tx.name(owner)
    claim.runs_alone = bool(flags & rows.FLAG_ALONE)
    return claim


# ---------------------------------------------------------------- due jobs


def promote_due(tx: Transaction, limit: int) -> int:
    """Move due jobs to pending, oldest due time first."""
    due = tx.all(_SQL["due"], (tx.now, limit))
    for rank, queue, priority, limited in due:
        place = PENDING if limited is None else HELD
        tx.run(_SQL["promote"], (place, place, tx.now, rank))
        tx.moved(queue, SCHEDULED, PENDING)
        if limited is None:
            tx.ring(tx.queue_name(queue), priority)
        else:
            tx.freed.add(limited)
    if tx.freed:
        limits.let_go(tx)
    return len(due)


def next_due(tx: Transaction) -> float | None:
    return tx.run(_SQL["next due"]).fetchone()[0]  # type: ignore[no-any-return]


# ---------------------------------------------------------------- a job's own reports


def report(tx: Transaction, held: Held, progress: float | None, note: str | None, checkpoint: str | None) -> bool:
    """Store progress or a checkpoint, renew a lease, and tell whether a cancel was asked for."""
    row = None
    if rows.is_uuid(held.job_id):
        asked = (rows.id_bytes(held.job_id), held.claim, *lanes.name_parts(held.lane))
        row = tx.run(_SQL["held by"], asked).fetchone()
    if row is None:
        raise ClaimLost(held.job_id, held.claim)
    lane, rank, flags = row
    if progress is not None or note is not None or checkpoint is not None:
        said = (progress, rows.storable(note), rows.storable(checkpoint), tx.now, rank)
        tx.run(_SQL["report"], said)
    tx.run(_SQL["renew lane"], (tx.host.boottime(), lane))
    return bool(flags & rows.FLAG_CANCEL)
