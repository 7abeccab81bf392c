"""What the keeper does, on Redis."""

import json
from collections.abc import Iterator, Sequence

from pool.backends.contract import Beat, BeatAnswer, Departure, Held, Promotion, Recovered
from pool.backends.redis.connection import Argument
from pool.backends.redis.ear import Ear
from pool.backends.redis.frames import id_text, quick_id, text_bytes
from pool.backends.redis.keys import lane_field
from pool.backends.redis.packing import cause_frames, error_frames, job_arguments, output_frame, result_frame
from pool.backends.redis.sheaves import RedisSheaves
from pool.backends.redis.watching import Silence, Watch, Watched, read_pools
from pool.backends.redis.work import mark_text
from pool.clock import boottime_now
from pool.identity import PoolId, WorkerId, parse_lane
from pool.jobs.job import Cause, NewJob, Receipt
from pool.jobs.lifecycle import Reason, Status


class RedisUpkeep(RedisSheaves):
    """Upkeep of the contract."""

    def __init__(self) -> None:
        super().__init__()
        self._watch = Watch()
        self._ear: Ear | None = None

    # ---------------------------------------------------------------- beats

    def beat(self, beat: Beat) -> BeatAnswer:
        facts = text_bytes(beat.facts, "the pool's facts")
        args: list[Argument] = [repr(float(beat.lease_seconds)), mark_text(beat.supervisor), facts]
        for held in beat.held:
            args += (lane_field(held.lane), quick_id(held.job_id), held.claim)
        lost, cancelled, unknown = self._session.run("beat", self._pool_keys(beat.pool), args)
        return BeatAnswer(
            lost=tuple(beat.held[number - 1] for number in lost),
            cancelled=tuple(beat.held[number - 1] for number in cancelled),
            unknown=tuple(sorted((self._held(beat.pool, *each) for each in unknown), key=lambda held: str(held.lane))),
        )

    def _held(self, pool: PoolId, field: bytes, packed: bytes, claim: bytes) -> Held:
        return Held(parse_lane(f"{pool}/{field.decode()}"), id_text(packed), int(claim))

    def _pool_keys(self, pool: PoolId) -> tuple[bytes, ...]:
        return (*self._keys.fixed, self._keys.pool(pool))

    # ---------------------------------------------------------------- departures

    def recover(self, departure: Departure) -> list[Recovered]:
        worker, cause = departure.worker, departure.cause
        lanes = b"" if departure.lanes is None else b" %b " % b"  ".join(_claims_meant(departure, departure.lanes))
        who = f"{worker.slot}.{worker.generation}"
        is_board_lost = departure.started is None
        args: list[Argument] = ["worker", who, "", int(departure.bar), cause.reason or Reason.WORKER_LOST]
        args += (int(is_board_lost), cause_frames(cause), error_frames(cause) if cause.text else b"", lanes, 0)
        for lane in sorted({*(departure.started or {}), *departure.output, *departure.finished, *departure.claims}):
            args += _lane_words(departure, lane)
        return self._take_back(worker.pool, args)

    def rehearse(self, pool: PoolId) -> None:
        nobody, cause = WorkerId(pool, slot=0, generation=0), Cause(reason=Reason.INTERRUPTED)
        self.recover(Departure(worker=nobody, cause=cause, started={}, bar=False, lanes=()))

    def _take_back(self, pool: PoolId, args: Sequence[Argument]) -> list[Recovered]:
        _, *taken = self._session.run("recover", self._pool_keys(pool), args)
        return [
            Recovered(id_text(packed), Status(status.decode()), worker.decode(), reason.decode())
            for packed, status, worker, reason in taken
        ]

    def leave(self, pool: PoolId) -> None:
        self._take_back(pool, ("pool", "", "", 0, Reason.INTERRUPTED.value, 1, _tale(INTERRUPTED), b"", "", 1))

    # ---------------------------------------------------------------- silence

    def recover_expired(self) -> list[Recovered]:
        """Judged by watching (PROTOCOL 8): a failed read starts every watch anew."""
        try:
            rows = self._look()
        except Exception:
            self._watch.read_failed()
            raise
        silent = self._watch.judge(rows, boottime_now())
        return [each for silence in silent for each in self._end_silence(silence)]

    def _look(self) -> list[Watched]:
        """A glance at all pools, and the lanes of those in question: each keeper does this, so it must cost little."""
        rows = read_pools(self._session.run("watch", self._keys.fixed, ("*",)))
        names = self._watch.in_question(rows, boottime_now())
        if not names:
            return rows
        whole = read_pools(self._session.run("watch", self._keys.fixed, [str(name) for name in names]))
        return [row for row in rows if row.pool not in names] + whole

    def _end_silence(self, silence: Silence) -> list[Recovered]:
        """Take back what the silent one held; the step does nothing if its counter has moved since we read it."""
        cause = _tale(LOST)
        if silence.is_forgotten:
            return self._take_back(silence.pool, ("pool", "", silence.seen, 0, LOST.reason or "", 1, cause, b"", "", 1))
        if silence.lane:
            args = ("holder", silence.lane, silence.seen, 0, LOST.reason or "", 1, cause, b"", "", 0)
            return self._take_back(silence.pool, args)
        if silence.worker:
            args = ("worker", silence.worker, "", 1, LOST.reason or "", 1, cause, b"", "", 0)
            return self._take_back(silence.pool, args)
        return self._take_back(silence.pool, ("pool", "", silence.seen, 1, LOST.reason or "", 1, cause, b"", "", 0))

    # ---------------------------------------------------------------- time

    def promote(self, limit: int = 1000) -> Promotion:
        if self._ear is not None:
            self._ear.quiet()
        moved, next_due, waits = self._session.run("promote", self._keys.fixed, (limit,))
        if self._ear is not None:
            self._ear.listen(self._session)
        return Promotion(int(moved), float(next_due) if next_due else None, bool(waits))

    def alarm(self) -> int | None:
        if self._ear is None:
            self._ear = Ear(self._keys)
        return self._ear.fd()

    def tick(self, schedule: str, version: str, due: float, job: NewJob | None) -> Receipt | None:
        names = text_bytes(schedule, "the schedule's name"), text_bytes(version, "the version")
        args = (*names, f"{due:.6f}", *(job_arguments(job) if job else ()))
        answer = self._session.run("tick", (*self._keys.fixed, self._keys.ticks), args)
        if not answer:
            return None
        if job is None:
            return Receipt("", Status.PENDING)
        _, packed, status, replayed, differs = answer
        return Receipt(id_text(packed), Status(status.decode()), bool(replayed), bool(differs))

    def last_tick(self, schedule: str) -> float | None:
        known = self._session.command("HGET", self._keys.ticks, text_bytes(schedule, "the schedule's name"))
        try:
            return float(known.split(b" ", 1)[0]) if known else None
        except ValueError:
            return None  # cannot be read: as `tick` sees it, none was recorded

    def last_job(self, schedule: str) -> str | None:
        known = self._session.command("HGET", self._keys.tick_jobs, text_bytes(schedule, "the schedule's name"))
        return id_text(known) if known else None

    def forget(self, *, completed_s: float, failed_s: float, idempotency_s: float, limit: int = 1000) -> int:
        ages = tuple(repr(float(age)) for age in (completed_s, failed_s, idempotency_s))
        return int(self._session.run("forget", self._keys.fixed, (*ages, limit)))


def _claims_meant(departure: Departure, lanes: Sequence[int]) -> Iterator[bytes]:
    """Each lane by its number, with the claim and the job where only those are meant."""
    for lane in lanes:
        job, claim = departure.claims.get(lane, ("", 0))
        yield b"%d=%d=%b" % (lane, claim, quick_id(job)) if job else b"%d" % lane


LOST = Cause(reason=Reason.WORKER_LOST, text="its pool or holder has shown no sign of life for a whole lease")
INTERRUPTED = Cause(reason=Reason.INTERRUPTED, text="its pool has ended")


def _lane_words(departure: Departure, lane: int) -> tuple[Argument, ...]:
    """What is known of a lane: the claim it started, its output, what completed there, and what alone is meant."""
    job = departure.started_jobs.get(lane)
    start = str(lane), (departure.started or {}).get(lane, -1), output_frame(departure.output.get(lane, ""))
    word = departure.finished.get(lane)
    end: tuple[Argument, ...] = ("",) * 4
    if word is not None:
        end = word.claim, quick_id(word.job_id), repr(float(word.started_at)), result_frame(word.result)
    meant = departure.claims.get(lane)
    only: tuple[Argument, ...] = ("", "") if meant is None else (meant[1], quick_id(meant[0]))
    return (*start, b"" if job is None else quick_id(job), *end, *only)


def _tale(cause: Cause) -> bytes:
    return cause_frames(cause)


def read_facts(raw: bytes) -> dict[str, object]:
    """A pool's facts; unreadable ones are shown as none."""
    try:
        facts = json.loads(raw)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
