"""Each system call of each step on SQLite fails once, or is the last one of its process; then the same step is repeated.

Whatever was hit, the end is the same as without the fault: one fault more or less must not change the story.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pool.backends.contract import Backend
from pool.backends.opening import open_backend
from pool.errors import BackendUnavailable
from pool.identity import LaneId, WorkerId
from pool.jobs.job import NewJob, Outcome, Settlement
from pool.jobs.lifecycle import Status
from tests.faults.tracing import act_under
from tests.helpers.builders import ANYTHING, Hand, died_working, drain, new_job, new_jobs, put, some_pool, worker
from tests.helpers.states import every_job

MOST_CALLS = 80
FAULTS = (
    "signal=SIGKILL",
    "error=EIO",
    pytest.param("error=ENOSPC", marks=pytest.mark.full),
    pytest.param("error=EINTR", marks=pytest.mark.full),
    pytest.param("delay_exit=100000", marks=pytest.mark.full),
)
CALLS = ("pwrite64", "fdatasync", "ftruncate")
OTHER_CALLS = ("openat", "pread64", "fsync", "fcntl")


@dataclass
class Scene:
    """A store's file, one lane, and what the step needs to be repeated word for word."""

    file: Path
    who: WorkerId
    batch: list[NewJob]

    def open(self) -> Backend:
        return open_backend(f"sqlite:///{self.file}")

    def hand(self, store: Backend, request: int = 0) -> Hand:
        hand = Hand(store, LaneId(self.who, 0))
        hand.request = request
        return hand


Story = dict[
    str, tuple[Callable[[Scene, Backend], Any], Callable[[Scene, Backend], Any], Callable[[Scene, Backend], Any]]
]


def nothing(scene: Scene, store: Backend) -> None:
    store.queues()


def enqueue(scene: Scene, store: Backend) -> list[str]:
    return [receipt.job_id for receipt in store.enqueue(scene.batch)]


def all_pending(scene: Scene, store: Backend) -> None:
    assert [store.job(job.id).status for job in scene.batch] == [Status.PENDING] * len(scene.batch)


def a_job(scene: Scene, store: Backend) -> None:
    put(store)


def an_only_start(scene: Scene, store: Backend) -> None:
    put(store, max_retries=0)


def claim(scene: Scene, store: Backend) -> str:
    return scene.hand(store).take().job_id


def claimed_once(scene: Scene, store: Backend) -> None:
    (job,) = every_job(store)
    assert (job.status, job.claim, job.worker_id) == (Status.RUNNING, 1, str(LaneId(scene.who, 0)))


def a_held_job(scene: Scene, store: Backend) -> None:
    put(store)
    scene.hand(store).take()
    put(store, priority=0)


def settle_with_children(scene: Scene, store: Backend) -> bool | None:
    hand = scene.hand(store, 1)
    held = next(job for job in every_job(store) if job.claim == 1)
    answer = store.exchange(
        hand.lane, 2, settlement=_done(held.id, tuple(scene.batch)), want=ANYTHING
    )  # the next job comes in the same step
    assert answer.claim is not None
    return answer.settled


def _done(job_id: str, children: tuple[NewJob, ...]) -> Settlement:
    return Settlement(job_id=job_id, claim=1, outcome=Outcome.COMPLETED, started_at=1.0, children=children)


def settled_once(scene: Scene, store: Backend) -> None:
    jobs = every_job(store)
    assert sorted(job.status.value for job in jobs) == ["completed"] + ["pending"] * (len(jobs) - 2) + ["running"]
    assert {job.id for job in scene.batch} < {job.id for job in jobs}
    assert len(jobs) == 2 + len(scene.batch)


def four_jobs(scene: Scene, store: Backend) -> None:
    store.enqueue(new_jobs(4))


def lanes_of(scene: Scene) -> list[LaneId]:
    return [LaneId(scene.who, number) for number in range(3)]


def held_by_lanes(scene: Scene, store: Backend) -> None:
    four_jobs(scene, store)
    store.exchange_many(lanes_of(scene), 1, settlements=[None] * 3, want=ANYTHING, ahead=2)


def settle_all_lanes(scene: Scene, store: Backend) -> list[bool | None]:
    """Three are completed, one of them with children, and the lead and the next lanes get what is there then."""
    first = {job.worker_id: job for job in every_job(store) if job.claim == 1}
    held = [first.get(str(lane)) for lane in lanes_of(scene)]
    words = [job and _done(job.id, tuple(scene.batch) if number == 1 else ()) for number, job in enumerate(held)]
    lanes = lanes_of(scene)
    return [answer.settled for answer in store.exchange_many(lanes, 2, settlements=words, want=ANYTHING, ahead=2)]


def all_settled_once(scene: Scene, store: Backend) -> None:
    jobs = every_job(store)
    assert sorted(job.status.value for job in jobs) == ["completed"] * 3 + ["pending"] + ["running"] * 3
    assert {job.id for job in scene.batch} < {job.id for job in jobs}
    assert store.statistics().completed == 3
    assert len({job.worker_id for job in jobs if job.status is Status.RUNNING}) == 3


def recover(scene: Scene, store: Backend) -> None:
    hand = scene.hand(store)
    held = next((job for job in every_job(store) if job.claim == 1), None)
    hand.held = held  # type: ignore[assignment]  # its claim number is all that is asked of it
    store.recover(died_working(hand))


def recovered_once(scene: Scene, store: Backend) -> None:
    lost = next(job for job in every_job(store) if job.claim == 1)
    assert (lost.status, lost.retry_count, lost.kill_count) == (Status.PENDING, 1, 1)
    assert store.statistics().worker_deaths == 1


def due_jobs(scene: Scene, store: Backend) -> None:
    now = store.server_now()
    store.enqueue(new_jobs(5, run_at=now + 0.01))
    while store.server_now() < now + 0.02:
        pass


def promote(scene: Scene, store: Backend) -> int | None:
    return store.promote().next_due


def promoted_once(scene: Scene, store: Backend) -> None:
    assert [job.status for job in every_job(store)] == [Status.PENDING] * 5


def cancel(scene: Scene, store: Backend) -> None:
    job = every_job(store)[0]
    if job.status is Status.PENDING:
        store.cancel(job.id)


def cancelled_once(scene: Scene, store: Backend) -> None:
    assert [job.status for job in every_job(store)] == [Status.CANCELLED]
    assert store.statistics().cancelled == 1


def known_schedule(scene: Scene, store: Backend) -> None:
    store.tick("nightly", "v1", 1000.0, None)


def tick(scene: Scene, store: Backend) -> None:
    store.tick("nightly", "v1", 2000.0, scene.batch[0])


def ticked_once(scene: Scene, store: Backend) -> None:
    assert store.last_tick("nightly") == 2000.0
    assert [job.status for job in every_job(store)] == [Status.PENDING]


STORIES: Story = {
    "enqueue": (nothing, enqueue, all_pending),
    "claim": (a_job, claim, claimed_once),
    "claim at most once": (an_only_start, claim, claimed_once),
    "settle": (a_held_job, settle_with_children, settled_once),
    "settle all lanes": (held_by_lanes, settle_all_lanes, all_settled_once),
    "recover": (a_held_job, recover, recovered_once),
    "promote": (due_jobs, promote, promoted_once),
    "tick": (known_schedule, tick, ticked_once),
    "cancel": (a_job, cancel, cancelled_once),
}


def attempt(step: Callable[[Scene, Backend], Any], scene: Scene, store: Backend) -> str:
    """The step, and after a refusal by the store once more, as a worker would."""
    try:
        step(scene, store)
    except BackendUnavailable as error:
        step(scene, store)
        return f"{type(error).__name__}: {error}"
    return "ok"


def scenes(tmp_path: Path, prepare: Callable[[Scene, Backend], Any], most: int) -> Iterator[Scene]:
    """The same beginning, as often as asked for."""
    for number in range(1, most + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        scene = Scene(folder / "jobs.db", worker(some_pool()), [new_job(), new_job(priority=5), new_job(queue="other")])
        with closing(scene.open()) as store:
            prepare(scene, store)
        yield scene


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("story", STORIES)
def test_a_fault_in_any_write_changes_nothing_in_the_end(story: str, fault: str, tmp_path: Path) -> None:
    for call in CALLS:
        hits = hit_each(call, fault, story, tmp_path)
        assert hits or call != "pwrite64", "a step that writes nothing promises nothing"


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("fault", ["signal=SIGKILL", "error=EIO", "delay_exit=100000"])
@pytest.mark.parametrize("story", STORIES)
def test_a_fault_in_any_other_call_changes_nothing_in_the_end(story: str, fault: str, tmp_path: Path) -> None:
    """Opening, reading and locking."""
    for call in OTHER_CALLS:
        hit_each(call, fault, story, tmp_path)


@pytest.mark.parametrize("fault", ["openat:error=EIO", "fcntl:error=ENOLCK"])
def test_a_connection_that_a_fault_has_spoiled_is_replaced(fault: str, tmp_path: Path) -> None:
    """What could not be opened for writing, or locked, once, must not stay so for good."""
    call, _, error = fault.partition(":")
    hit_each(call, error, "enqueue", tmp_path, most=6)


def hit_each(call: str, fault: str, story: str, tmp_path: Path, *, most: int = MOST_CALLS) -> int:
    """One life per call of this kind, each with the fault in another of them; how many there were."""
    prepare, step, check = STORIES[story]
    (tmp_path / call).mkdir()
    for number, scene in enumerate(scenes(tmp_path / call, prepare, most), start=1):
        traced = act_under(
            f"{call}:{fault}:when={number}",
            scene.file.parent,
            scene.open,
            lambda store, s=scene: attempt(step, s, store),
        )
        if not traced.was_hit:
            return number - 1
        look_after(scene, step, check, f"{call} number {number}, {fault}: {traced.answer}")
    assert most < MOST_CALLS, f"more than {MOST_CALLS} calls of {call}"
    return most


def look_after(
    scene: Scene, step: Callable[[Scene, Backend], Any], check: Callable[[Scene, Backend], Any], what: str
) -> None:
    """Another process opens the store, repeats the step, and finds the end of the story; then all can be worked off."""
    with closing(scene.open()) as store:
        try:
            step(scene, store)
            check(scene, store)
            store.recover(died_working(scene.hand(store), started={}))
            drain(Hand(store))
            assert {job.status for job in every_job(store)} <= {Status.COMPLETED, Status.CANCELLED}
        except AssertionError as error:
            raise AssertionError(f"after {what}: {error}") from error
    with closing(sqlite3.connect(scene.file)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",), what
