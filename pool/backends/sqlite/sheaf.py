"""Several lanes of one worker in one step: each settles what it held, the lead takes the next job, free ones plain jobs ahead."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pool.backends.contract import Answer, Want
from pool.backends.sqlite import lanes, rows, settling, work
from pool.backends.sqlite.lanes import LaneRecord
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import PENDING, RUNNING, Row, Transaction
from pool.backends.sqlite.trouble import UNREADABLE
from pool.errors import LaneBarred, RequestRefused
from pool.identity import LaneId
from pool.jobs.job import Claim, Settlement

_SQL = statements("work.sql")


Call = Sequence[tuple[LaneId, Settlement | None]]


@dataclass(slots=True)
class Member:
    """One lane of the call: its record (None: it never claimed, or has no part in this), its word, its answer."""

    lane: LaneId
    word: Settlement | None
    record: LaneRecord | None = None
    settled: bool | None = None
    claim: Claim | None = None
    is_repeated: bool = False

    @property
    def answer(self) -> Answer:
        return Answer(self.settled, self.claim)


@dataclass(slots=True)
class AllTold:
    """The answers, and the error to raise once what was settled is committed."""

    answers: list[Answer]
    error: LaneBarred | None = None
    work_is_left: bool = False


@dataclass(frozen=True, slots=True)
class Ahead:
    """What may be handed out beside the lead's job: at most so many, and what must stay pending for others."""

    most: int
    leave: int


def exchange_many(tx: Transaction, call: Call, request: int, want: Want | None, ahead: Ahead) -> AllTold:
    """One numbered call of all lanes. The same number again is answered alike. StaleLane as in `work.exchange`."""
    lane, word = call[0]
    record = _lead_record(tx, call, request, want)
    if record is None:
        return AllTold([Answer(None if word is None else False) for _, word in call])
    if request < record.request:
        raise RequestRefused(str(lane), request, record.request)
    if request == record.request:
        return _again(tx, call, request, want)
    lead, followers = Member(lane, word, record), [_follower(tx, lane, word, request) for lane, word in call[1:]]
    _settle(tx, [lead, *followers])
    record.settled = None if lead.settled is None else int(lead.settled)
    told, found = work.tell(tx, lane, record, want)
    lead.claim = told.answer.claim
    given = 0 if want is None or found is None else _give_ahead(tx, followers, request, want, found, ahead)
    _save(tx, lead, followers, request)
    left = found is not None and work.is_work_left(tx, found, 1 + given)
    return AllTold([member.answer for member in (lead, *followers)], told.error, left)


def _lead_record(tx: Transaction, call: Call, request: int, want: Want | None) -> LaneRecord | None:
    """Of the first lane. It numbers the call, so it is made where any lane has something to say."""
    lane, _ = call[0]
    record = lanes.remembered(tx, lane, request) or work.stored_record(tx, lane, want)
    if record is None and any(word is not None for _, word in call[1:]):
        return lanes.find_or_add(tx, lane, leased=False)
    return record


def _follower(tx: Transaction, lane: LaneId, word: Settlement | None, request: int) -> Member:
    """A lane with nothing to say is not looked up before there is a job for it."""
    if word is None:
        return Member(lane, None)
    record = lanes.remembered_follower(tx, lane, request) or lanes.find(tx, lane)
    if record is not None and record.request > request:
        raise RequestRefused(str(lane), request, record.request)
    if record is not None and record.request == request:
        return _repeated(tx, lane, record, word)
    return Member(lane, word, record)


def _again(tx: Transaction, call: Call, request: int, want: Want | None) -> AllTold:
    """The reply to this very call was lost; nothing acts. What is answered now must be on disk (as in `work`)."""
    tx.must_sync = True
    lead, *others = [_again_one(tx, lane, word, request) for lane, word in call]
    if lead.record is not None and want is not None:
        lead.claim = work.held_claim(tx, lead.record)
    is_barred = want is not None and lead.record is not None and bool(lead.record.barred)
    return AllTold([member.answer for member in (lead, *others)], LaneBarred(str(lead.lane)) if is_barred else None)


def _again_one(tx: Transaction, lane: LaneId, word: Settlement | None, request: int) -> Member:
    record = lanes.find(tx, lane)
    if record is None or record.request != request:
        return _absent(lane, word)
    return _repeated(tx, lane, record, word)


def _repeated(tx: Transaction, lane: LaneId, record: LaneRecord, word: Settlement | None) -> Member:
    """What this lane was told. One whose word was not taken kept what it held, and was given nothing."""
    settled = work.as_bool(record.settled)
    claim = None if settled is False else work.held_claim(tx, record)
    return Member(lane, word, record, settled, claim, is_repeated=True)


def _absent(lane: LaneId, word: Settlement | None) -> Member:
    """The record of this lane does not carry the number: it had no part in the call, or nothing to settle."""
    return Member(lane, word, settled=None if word is None else False)


# ---------------------------------------------------------------- settle


def _settle(tx: Transaction, members: Sequence[Member]) -> None:
    """Every lane's word, under its own claim; the many that complete at their first attempt in one go."""
    first_tries: list[tuple[LaneRecord, Settlement]] = []
    for member in members:
        record, word = member.record, member.word
        if word is None or member.is_repeated:
            continue
        if record is not None and work.completes_first_try(record, word):
            first_tries.append((record, word))
            member.settled = True
        else:
            member.settled = record is not None and work.settle(tx, record, word)
    if first_tries:
        settling.complete_first_tries(tx, first_tries)


def _save(tx: Transaction, lead: Member, followers: Sequence[Member], request: int) -> None:
    """The records of all lanes that had a part in the call, under its number."""
    took_part = [lead, *(each for each in followers if each.record is not None and not each.is_repeated)]
    records = [member.record for member in took_part if member.record is not None]
    for member in took_part:
        if member.record is not None:
            member.record.request = request
            member.record.settled = None if member.settled is None else int(member.settled)
    lanes.save_all(tx, records)
    for member in took_part:
        if member.record is not None:
            lanes.drop_if_leased_and_idle(tx, member.lane, member.record)


# ---------------------------------------------------------------- ahead


def _give_ahead(
    tx: Transaction, followers: Sequence[Member], request: int, want: Want, found: Row, ahead: Ahead
) -> int:
    """Hand what comes after the lead's job to free lanes, run after run, as long as it is plain; how many jobs."""
    if ahead.most < 1 or want.lease_seconds is not None or not _is_plain(tx, found):
        return 0
    free, given = _free_lanes(tx, followers, request), 0
    row = work.best_for(tx, want) if found[20] else found
    while row is not None:
        spare = row[18] + tx.unbooked(row[3], PENDING) - ahead.leave
        run = _next_run(tx, want, row, min(ahead.most - given, spare))
        taken = _take_run(tx, free, run)
        given += taken
        if taken < len(run) or spare <= taken or given == ahead.most:
            break
        row = work.best_for(tx, want)
    return given


def _next_run(tx: Transaction, want: Want, row: Row, most: int) -> list[Row]:
    """Jobs of this row's queue that come next, nothing of another queue before or between them."""
    if most < 1:
        return []
    if row[20]:
        return [row]  # where waiting counts, the order is not that of the index
    low, high, queue = want.min_priority, want.max_priority, row[3]
    found = tx.all(_SQL["next of queue"], (queue, low, high, most))
    if not want.is_any or not found or not tx.run(_SQL["elsewhere"], (queue,)).fetchone():
        return found
    rival = work.next_but(tx, want, (*want.reserved, tx.queue_name(queue)))
    return found if rival is None else [each for each in found if _place(each) < _place(rival)]


def _place(row: Row) -> tuple[int, int]:
    return -row[5], row[0]


def _is_plain(tx: Transaction, row: Row) -> bool:
    """Whether it may wait in a lane's hands for a moment, and others may follow it."""
    expires_at, max_retries, flags, limited = row[16], row[8], row[15], row[21]
    is_odd = max_retries == 0 or limited is not None or flags & rows.FLAG_ALONE
    return not is_odd and (expires_at is None or expires_at > tx.now)


def _take_run(tx: Transaction, free: Iterator[Member], run: Sequence[Row]) -> int:
    """Give these jobs to the free lanes, up to the first that is not plain; how many."""
    plain: list[Row] = []
    watched: list[Row] = []
    now, boottime = tx.now, tx.host.boottime()
    for row in run:
        try:
            claim = work.next_claim(tx, row, boottime) if _is_plain(tx, row) else None
        except UNREADABLE:
            claim = None
        member = None if claim is None else next(free, None)
        if claim is None or member is None or member.record is None:
            break
        record = member.record
        (plain if row[23] is None else watched).append((record.id, claim.claim, now, row[0]))
        record.hold(row[0], claim, row)
        member.claim = claim
    if plain:
        tx.run_many(_SQL["take"], plain)
    if watched:
        tx.run_many(_SQL["take watched"], watched)
    taken = len(plain) + len(watched)
    if taken:
        tx.moved(run[0][3], PENDING, RUNNING, times=taken)
    return taken


def _free_lanes(tx: Transaction, followers: Sequence[Member], request: int) -> Iterator[Member]:
    """The lanes that hold nothing, each with its record. A lane whose word was refused sits out."""
    for member in followers:
        if member.word is None:
            member.record = _idle_record(tx, member.lane, request)
        if member.record is not None and not member.is_repeated and member.settled is not False:
            yield member


def _idle_record(tx: Transaction, lane: LaneId, request: int) -> LaneRecord | None:
    """Of a lane without a word: what it holds as remembered may have been taken back, so that is looked up."""
    record = lanes.remembered_follower(tx, lane, request)
    if record is None or record.held is not None:
        record = lanes.find_or_add(tx, lane, leased=False)
    return record if record.held is None and not record.barred and record.request < request else None
