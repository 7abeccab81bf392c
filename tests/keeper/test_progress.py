"""What the keeper reads of the jobs at work for the status: of the longest ones, and not more than so many."""

import dataclasses
import uuid

from pool.board.board import Board
from pool.board.lanes import Phase
from pool.board.record import Role
from pool.clock import monotonic_now
from pool.errors import JobNotFound
from pool.jobs.ids import new_job_id
from pool.jobs.job import Job
from pool.keeper.progress import MOST, RUNNING_FOR_S, Progress


@dataclasses.dataclass
class Store:
    """Knows these jobs and counts how often it is asked."""

    said: dict[str, tuple[float | None, str | None]]
    asked: list[str] = dataclasses.field(default_factory=list)

    def job(self, job_id: str) -> Job:
        self.asked.append(job_id)
        if job_id not in self.said:
            raise JobNotFound(job_id)
        fields = dict.fromkeys(field.name for field in dataclasses.fields(Job))
        progress, note = self.said[job_id]
        return Job(**{**fields, "progress": progress, "progress_note": note})  # type: ignore[arg-type]


def busy_board(since: dict[str, float], phase: Phase = Phase.STARTED) -> Board:
    """A worker for each job, which it has run for so many seconds."""
    board, now = Board(records=len(since)), monotonic_now()
    for slot, (job_id, seconds) in enumerate(since.items()):
        record = board.take_free()
        assert record is not None
        record.occupy(Role.WORKER, slot, 1, pid=0, group="workers", now=now)
        record.lanes[0].state.write(
            phase, 1, uuid.UUID(job_id).bytes, now - seconds, 0.0, 1, b"tasks.steps", b"default"
        )
    return board


def test_those_that_say_something_are_told_of() -> None:
    loud, mute, gone, short = (new_job_id() for _ in range(4))
    store = Store({loud: (0.5, "half way"), mute: (None, None), short: (0.1, "just begun")})
    progress = Progress(busy_board({loud: 10, mute: 20, gone: 30, short: RUNNING_FOR_S / 2}), store)  # type: ignore[arg-type]
    assert progress.look() == {loud: [0.5, "half way"]}
    assert progress.look() == {loud: [0.5, "half way"]}
    assert store.asked == [gone, mute, loud]  # once for both looks, the longest first


def test_of_very_many_only_the_longest_are_looked_at() -> None:
    jobs = {new_job_id(): 10.0 + n for n in range(MOST * 3)}
    store = Store(dict.fromkeys(jobs, (0.1, "x" * 10_000)))
    found = Progress(busy_board(jobs), store).look()  # type: ignore[arg-type]
    assert list(found) == list(jobs)[: -MOST - 1 : -1]
    assert all(len(note) == 200 for _, note in found.values())


def test_what_was_claimed_and_not_begun_says_nothing() -> None:
    store = Store({})
    assert Progress(busy_board({new_job_id(): 60}, Phase.CLAIMED), store).look() == {}  # type: ignore[arg-type]
    assert store.asked == []
