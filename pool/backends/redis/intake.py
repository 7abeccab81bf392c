"""What producers and operators do, on Redis."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from pool.backends.contract import MAX_BATCH, SAME_PURGE_S, AuditEntry
from pool.backends.redis.connection import Argument, pack_words
from pool.backends.redis.frames import id_text, packed_id, quick_id, text_bytes
from pool.backends.redis.keys import Keys
from pool.backends.redis.packing import batch_bytes, callback_argument, cause_frames, job_arguments, plain_words
from pool.backends.redis.records import read_job, read_receipt
from pool.backends.redis.scripts import step
from pool.backends.redis.session import Session
from pool.clock import monotonic_now
from pool.errors import (
    BackendUnavailable,
    BatchClosed,
    CallerError,
    IllegalMove,
    JobNotFound,
    OutcomeUnknown,
    QueueFull,
    UniqueConflict,
)
from pool.jobs.job import PAYLOAD_REPLACED, Job, NewBatch, NewJob, Receipt
from pool.jobs.lifecycle import MOVES, Status
from pool.jobs.priority import POINTS_PER_AGEING

DISK_WAIT_MS = 1500
PLAIN_AGAIN = 16
ONE_JOB_WORDS = 1 + 6 + 4  # count of keys, keys, arguments
KEPT_ENTRIES = 100_000  # of the audit log
LARGE_BATCH = 1000  # jobs


class RedisIntake:
    """Intake of the contract."""

    _session: Session
    _keys: Keys
    job: Callable[[str], Job]

    def __init__(self) -> None:
        self._purging: dict[tuple[str, frozenset[Status]], tuple[str, float]] = {}  # mark, and when it was used
        self._one_job_keys = b""
        self._odd_jobs = 0  # how many single jobs yet are not tried as plain ones, since one was not

    def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        refuse_above: int | None = None,
        durable: bool = False,
        batch: NewBatch | None = None,
    ) -> list[Receipt]:
        if not jobs and batch is None:
            return []
        if len(jobs) > MAX_BATCH:
            raise CallerError(f"{len(jobs):,} jobs in one batch: at most {MAX_BATCH:,} enter together; send chunks")
        if len(jobs) == 1 and refuse_above is None and batch is None and self._is_stored_plainly(jobs):
            if durable:
                self._wait_for_disk([jobs[0].id])
            return [Receipt(jobs[0].id, Status.PENDING)]
        members = jobs if batch is None else [replace(job, batch_id=batch.id) for job in jobs]
        arguments = tuple(chain.from_iterable(map(job_arguments, members)))
        limit = -1 if refuse_above is None else refuse_above
        run = self._session.run if len(jobs) < LARGE_BATCH else self._session.run_long
        answers = self._once(jobs, run, "enqueue", self._keys.fixed, (limit, *_batch_arguments(batch), *arguments))
        if answers and answers[0] == b"closed" and batch is not None:
            raise BatchClosed(batch.id)
        if answers and answers[0] == b"full":
            _, queue, pending, allowed = answers
            raise QueueFull(queue.decode(), pending, allowed)
        if durable:
            self._wait_for_disk([job.id for job in jobs])
        return [read_receipt(job.id, answer) for job, answer in zip(jobs, answers, strict=True)]

    def _is_stored_plainly(self, jobs: Sequence[NewJob]) -> bool:
        """Whether the one job was new and plain, and the short step has stored it."""
        words = plain_words(jobs[0])
        if words is None:
            return False
        if self._odd_jobs:
            self._odd_jobs -= 1
            return False
        keys = self._one_job_keys = self._one_job_keys or pack_words((6, *self._keys.enqueue_one))
        answer = self._once(jobs, self._session.run_packed, step("enqueue_one"), ONE_JOB_WORDS, keys + words)
        self._odd_jobs = PLAIN_AGAIN if answer < 0 else 0
        return bool(answer == 1)

    def _once(self, jobs: Sequence[NewJob], call: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, or in words that nobody knows whether these jobs were stored."""
        self._session.freshen()
        try:
            return call(*arguments)
        except BackendUnavailable as problem:
            if getattr(problem.__cause__, "was_sent", False):
                raise OutcomeUnknown(problem.where, problem.why, [job.id for job in jobs]) from problem
            raise

    def _wait_for_disk(self, job_ids: list[str]) -> None:
        """The server's disk has the jobs, where the server can say so (7.2 and newer, appendonly yes)."""
        if not self._is_on_disk():
            why = f"the server's disk did not confirm within {DISK_WAIT_MS / 1000:g} s"
            raise OutcomeUnknown(self._session.address.masked, why, job_ids)

    def _is_on_disk(self) -> bool:
        """Whether all that this connection wrote is synced; True where the server cannot tell (said at start)."""
        try:
            local, _ = self._session.once("WAITAOF", 1, 0, DISK_WAIT_MS)
        except BackendUnavailable as problem:
            if "unknown command" in problem.why.lower() or "appendonly is disabled" in problem.why:
                return True
            raise
        return bool(local >= 1)

    def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._told("cancel", job_id, self._move("cancel", job_id, owner or ""))

    def revive(self, job_id: str, *, payload: str | None = None, by: str = "") -> Job:
        new: tuple[bytes, ...] = ()
        if payload is not None:
            person = text_bytes(by, "the person's name")
            new = b"1", text_bytes(payload, "the payload"), cause_frames(PAYLOAD_REPLACED), person
        return self._told("revive", job_id, self._move("revive", job_id, *new))

    def discard(self, job_id: str) -> Job:
        return self._told("discard", job_id, self._move("discard", job_id))

    def _move(self, name: str, job_id: str, *args: bytes | str) -> list[Any]:
        try:
            packed = packed_id(job_id)
        except ValueError as problem:
            raise JobNotFound(job_id) from problem
        answer: list[Any] = self._session.run(name, self._keys.fixed, (packed, *args, *(b"",) * (5 - len(args))))
        return answer

    def _told(self, move: str, job_id: str, answer: list[Any]) -> Job:
        match answer:
            case [b"none"]:
                raise JobNotFound(job_id)
            case [b"illegal", status] if self._session.was_sent_twice and _is_after(move, status.decode()):
                return self.job(job_id)
            case [b"illegal", status]:
                raise IllegalMove(move, status.decode(), job_id)
            case [b"taken", key, holder]:
                raise UniqueConflict(key.decode(), id_text(holder))
        return read_job(*answer[1:])

    def set_queue(self, queue: str, *, paused: bool | None = None, max_pending: int | None = None) -> None:
        switch = "" if paused is None else str(int(paused))
        limit = "" if max_pending is None else str(int(max_pending))
        self._session.run("set_queue", self._keys.fixed, (text_bytes(queue, "the queue's name"), switch, limit))

    def set_ageing(self, seconds: float) -> None:
        grain = round(seconds * 1_000_000 / POINTS_PER_AGEING)
        self._session.run("set_ageing", self._keys.fixed, (repr(float(seconds)), grain))

    def set_setting(self, name: str, value: str) -> None:
        text = text_bytes(value, "the setting")
        self._session.command("HSET", self._keys.settings, text_bytes(name, "the setting's name"), text)

    def note(self, entry: AuditEntry) -> None:
        texts = [text.encode("utf-8", "backslashreplace") for text in (entry.who, entry.act, entry.details)]
        self._session.run("note", self._keys.fixed, (*texts, KEPT_ENTRIES))

    def delete(self, job_ids: Sequence[str]) -> int:
        packed = [quick_id(job_id) for job_id in job_ids]
        return int(self._session.run("delete", self._keys.fixed, [one for one in packed if len(one) == 16]))

    def purge(self, queue: str, *, statuses: frozenset[Status], limit: int = 1000) -> int:
        wanted = statuses - {Status.RUNNING}
        if not wanted:
            return 0
        which = queue, wanted
        top, last_call = self._purging.get(which, ("", 0.0))
        mark_given = top if monotonic_now() - last_call < SAME_PURGE_S else ""
        states = (status.value for status in sorted(wanted))
        args: list[Argument] = [text_bytes(queue, "the queue's name"), limit, mark_given, *states]
        removed, mark = self._session.run("purge", self._keys.fixed, args)
        if removed:
            self._purging[which] = mark.decode(), monotonic_now()
        else:
            self._purging.pop(which, None)
        return int(removed)


def _is_after(move: str, status: str) -> bool:
    """Whether the job is where this order leads: then it was obeyed, and only the answer of its first copy was lost."""
    return Status(status) is MOVES[move][1]


def _batch_arguments(batch: NewBatch | None) -> tuple[bytes, bytes, bytes]:
    if batch is None:
        return b"", b"", b""
    return batch_bytes(batch.id), callback_argument(batch.on_complete), callback_argument(batch.on_success)
